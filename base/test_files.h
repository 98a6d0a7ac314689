// Files for tests: a directory that is removed with the test, and reads and
// writes of whole files that abort the test on failure.
#ifndef CASTOR_BASE_TEST_FILES_H_
#define CASTOR_BASE_TEST_FILES_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/string_view.h"
#include "base/check.h"

namespace castor {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const char* base = getenv("TEST_TMPDIR");
    path_ = std::string(base != nullptr ? base : "/tmp") + "/castor-XXXXXX";
    CASTOR_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  CASTOR_CHECK(in.is_open());
  return std::string(std::istreambuf_iterator<char>(in), {});
}

inline void WriteFile(const std::string& path, absl::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  CASTOR_CHECK(out.good());
}

}  // namespace castor

#endif  // CASTOR_BASE_TEST_FILES_H_
