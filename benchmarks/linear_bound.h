// The linear relaxation of all that a plan decides: no plan's step can be
// shorter than its solution.
//
// A plan chooses for each chunk a side, for each gap whether the payload stays,
// for each micro batch whether gradients get a block of their own, and for each
// sum a side, within the device bytes of every moment. Here each of these may
// be chosen in part, and the step is as long as the busiest resource works.
// The minimum that a solver finds is a bound for every plan; with the variables
// in whole numbers it is one, too, and the difference says how much of a plan's
// excess is due to the relaxation. research/tight_bound.h adds what follows
// from the order of a step's work.
//
// The same choices within the same room bound the bytes that cross the bus, the
// step's time being left free.
#ifndef CASTOR_BENCHMARKS_LINEAR_BOUND_H_
#define CASTOR_BENCHMARKS_LINEAR_BOUND_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "benchmarks/linear_program.h"
#include "memory/plan/plan.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {

// The quantity to be minimised.
enum class Objective {
  kStepMs,    // the step's length
  kMovedMib,  // MiB that cross the bus, both ways together
};

// The program of a training step, and a plan's choices as a point of it.
class LinearBound {
 public:
  // `request` outlives it.
  explicit LinearBound(const PlanRequest& request,
                       Objective objective = Objective::kStepMs);
  LinearBound(const LinearBound&) = delete;
  LinearBound& operator=(const LinearBound&) = delete;
  virtual ~LinearBound() = default;

  // Its variable 0 is the objective; for kMovedMib, variables 1 and 2 are the
  // MiB that go to the device and from it, and 0 is their sum.
  const LinearProgram& program() const { return program_; }
  // `cost`: of the plan, each of whose steps is like the one before. `value`:
  // the plan's, of the objective.
  std::vector<double> PointOf(const Plan& plan, const PlanCost& cost,
                              double value) const;

 protected:
  struct Stay {  // in a gap
    int64_t chunk = 0;
    Side side = Side::kHost;  // of the chunk
    int64_t from = 0;
    int64_t to = 0;
    int64_t variable = 0;
  };
  struct Block {
    int64_t chunk = 0;
    Side side = Side::kHost;  // of the chunk
    int64_t from = 0;
    int64_t variable = 0;
  };
  struct CopyBack {  // of a chunk on the device's side, unless all gaps stay
    int64_t chunk = 0;
    int64_t variable = 0;
    std::vector<int64_t> stays;
  };
  // A sum of variables, given by the changes from the sum before it: the MiB
  // that are held from a moment on or that a direction of the bus moves, or the
  // ms that a resource works by then.
  struct Held {
    int64_t variable = 0;
    int64_t before = 0;  // its variable, or -1
    std::vector<std::pair<int64_t, double>> changes;
    double always = 0;
  };
  class Builder;  // benchmarks/linear_builder.h

  // Sets the variables of a tighter bound that are no sums of others.
  virtual void SetMore(const Plan& plan, const PlanCost& cost,
                       std::vector<double>* point) const {}

  // A moment after the step's end is one of the next step.
  bool Uses(int64_t moment, int64_t chunk) const;
  // Returns true if an operator of the model runs there that does not use the
  // chunk and leaves no room for it.
  bool LacksRoom(int64_t moment, int64_t chunk) const;
  // The last such operator in (from, to), or -1.
  int64_t LastWithoutRoom(int64_t chunk, int64_t from, int64_t to) const;

  const PlanRequest& request_;
  LinearProgram program_;
  // By moment, the MiB that are left beside the bytes that must be there.
  std::vector<double> room_mib_;
  std::vector<int64_t> on_device_;  // variables by chunk, or -1
  std::vector<int64_t> summed_;
  std::vector<Stay> stays_;
  std::vector<Block> blocks_;
  std::vector<CopyBack> copies_back_;
  std::vector<Held> held_;
  std::vector<int64_t> held_at_;  // variables for the held MiB, by moment
};

}  // namespace castor

#endif  // CASTOR_BENCHMARKS_LINEAR_BOUND_H_
