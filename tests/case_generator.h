// Random trainings for property tests: a model with all that its result may
// depend on, and placements, on which it may not depend (promise P1).
//
// Everything is a function of a seed, so that any case can be made again alone.
#ifndef CASTOR_TESTS_CASE_GENERATOR_H_
#define CASTOR_TESTS_CASE_GENERATOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "models/family.h"
#include "tests/random.h"
#include "tests/training_harness.h"

namespace castor::testing {

// Model of `family` (null: of any), precision, optimizer, data (in half of the
// cases with tokens, or whole micro batches, that are not labelled), steps.
// Placed like ReferenceOf.
TrainingCase RandomModel(uint64_t seed, const models::Family* family = nullptr);

// Gives the case's parameters this type. An optimizer whose masters they cannot
// have then becomes AdamW's default.
void SetType(DType dtype, TrainingCase* c);

// A model that generates instead: it reads a prompt, and then token after token
// through a key-value cache.
TrainingCase RandomGeneration(uint64_t seed);

// The same training with everything on the device, activations too, nothing
// fetched ahead, one thread, an unlimited bus. All placements are compared with
// it. It evaluates when `c` does.
TrainingCase ReferenceOf(const TrainingCase& c);

// The bytes that a run needs under its policy and chunk size, found from
// refusals.
struct Needs {
  int64_t smallest_device = 0;  // with the case's host budget
  int64_t unmanaged_device = 0;
  int64_t smallest_host = 0;  // under any device budget
  int64_t largest_host = 0;   // with everything at home
};
// Errors: a run that should be refused is not, or not in the way expected.
absl::StatusOr<Needs> FindNeeds(const TrainingCase& c);

// Any row of the table of policies, the default one thrice as often as another.
const PlacementPolicy* RandomPolicy(Random& random);

// `model` with random budgets, chunk size, kept activations and so on, often
// with budgets that are just too small or just enough for `policy`; null: for
// any policy. On up to `most_ranks` ranks, as far as they can share the micro
// batches.
absl::StatusOr<TrainingCase> RandomPlacement(
    const TrainingCase& model, Random& random, int most_ranks = 1,
    const PlacementPolicy* policy = nullptr);

// Lets the planner be asked again after nearly every step, with random
// durations and speeds, so that plans change while steps are under way.
void PlanAgainAndAgain(Random& random, TrainingCase* c);

// A planner's mistake that no proof lets through: a chunk is fetched twice.
void FetchTwice(Plan* plan);

// Returns all that is needed to write the case down by hand.
std::string Describe(const TrainingCase& c);

// Returns a case for which `fails` still holds, with as many settings as
// possible made plain. `fails(c)` must hold. Runs it a few dozen times.
TrainingCase Shrink(TrainingCase c,
                    const std::function<bool(const TrainingCase&)>& fails);

}  // namespace castor::testing

#endif  // CASTOR_TESTS_CASE_GENERATOR_H_
