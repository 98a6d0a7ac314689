#include "benchmarks/linear_program.h"

#include <gtest/gtest.h>

#include <limits>

namespace castor {
namespace {

TEST(LinearProgram, IsWrittenAsMps) {
  LinearProgram program;
  program.variables = {{std::numeric_limits<double>::infinity(), false}, {1}};
  program.rows = {{{{0, -1.0}, {1, 2.0}, {1, 0.5}}, -3}};
  EXPECT_EQ(program.ToMps(),
            "NAME plan\nROWS\n N step\n L r0\nCOLUMNS\n v0 step 1\n v0 r0 -1\n"
            " M 'MARKER' 'INTORG'\n v1 r0 2.5\n M 'MARKER' 'INTEND'\n"
            "RHS\n b r0 -3\nBOUNDS\n UP x v1 1\nENDATA\n");
}

}  // namespace
}  // namespace castor
