#include "kernels/lion/lion.h"

#include <cmath>

#include "base/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/lion/hypers_for_test.h"
#include "kernels/state_update/checks_for_test.h"

namespace castor::kernels {
namespace {

// The formulas of cpu.cc's head in plain C++.
void Oracle(const LionHyper& h, float g, float& p, float& m) {
  const float c = std::fma(static_cast<float>(1.0 - h.beta1), g,
                           m * static_cast<float>(h.beta1));
  const float lr = static_cast<float>(h.lr);
  p *= static_cast<float>(1.0 - h.lr * h.weight_decay);
  p += c > 0 ? -lr : c < 0 ? lr : 0;
  m = std::fma(static_cast<float>(1.0 - h.beta2), g,
               m * static_cast<float>(h.beta2));
}

class LionTest : public testing::TestWithParam<int> {
 protected:
  ThreadPool pool_{2};
  const ExecContext context_{&pool_};
};

INSTANTIATE_TEST_SUITE_P(Bits, LionTest, testing::Values(8, 16, 32));

TEST_P(LionTest, EqualsTheOracleBitForBitOnEveryTarget) {
  ExpectTheOraclesBits<LionArgs>(context_, GetParam(), LionHypers(), Oracle);
}

TEST_P(LionTest, DoesNotDependOnWhereAParameterIsCut) {
  ExpectNoCutOfAParameterToShow<LionArgs>(context_, GetParam(),
                                          LionHypers()[0]);
}

TEST_P(LionTest, GivesTheSameAside) {
  ExpectTheSameAside<LionArgs>(context_, GetParam(), LionHypers()[0]);
}

// The sign of a gradient that is infinite is finite; the momentum is not.
TEST_P(LionTest, SaysWhatIsNotFinite) {
  ExpectToSayWhatIsNotFinite<LionArgs>(context_, GetParam(), LionHyper());
}

TEST_P(LionTest, RefusesWhatItCannotTake) {
  ExpectToRefuseWhatItCannotTake<LionArgs>(context_, GetParam(), LionHyper());
}

}  // namespace
}  // namespace castor::kernels
