// Tests that the machine knows all of the kernels as nvcc compiled them: it
// parses each of them, those included that no test launches.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "kernels/ptx/program.h"

namespace castor::kernels::ptx {
namespace {

TEST(PtxLibrary, KnowsEveryKernel) {
  const char* const path = std::getenv("CASTOR_PTX");
  ASSERT_NE(path, nullptr);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const absl::StatusOr<Library> library = Library::Create(text.str());
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_GT(library->names().size(), 100u);
  for (const std::string& name : library->names()) {
    const absl::StatusOr<Program> program = library->Find(name);
    ASSERT_TRUE(program.ok()) << name << ": " << program.status();
    EXPECT_FALSE(program->code.empty()) << name;
  }
}

}  // namespace
}  // namespace castor::kernels::ptx
