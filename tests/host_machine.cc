#include "tests/test_machine.h"

namespace castor::testing {

std::string WhyNoTestMachine() { return ""; }

TrainingCase OnTestMachine(TrainingCase c) { return c; }

int MostRanksOnTestMachine() { return 4; }

int64_t PlacementsOnTestMachine() { return 1200; }

}  // namespace castor::testing
