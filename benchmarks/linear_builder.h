// Builds a step's program (linear_bound.h): the choices of a plan, the work of
// each resource for them and the bytes that are held at each moment. A tighter
// bound adds its rows by the same means (research/turns.h).
#ifndef CASTOR_BENCHMARKS_LINEAR_BUILDER_H_
#define CASTOR_BENCHMARKS_LINEAR_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "benchmarks/linear_bound.h"
#include "benchmarks/linear_program.h"
#include "benchmarks/linear_units.h"
#include "memory/plan/residency/use_index.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {

class LinearBound::Builder {
 public:
  Builder(LinearBound* bound, Objective objective)
      : bound_(*bound),
        counts_mib_(objective == Objective::kMovedMib),
        request_(bound->request_),
        trace_(*request_.trace),
        program_(bound->program_),
        chunks_(static_cast<int64_t>(trace_.chunks.size())),
        moments_(static_cast<int64_t>(trace_.ops.size())),
        room_mib_(bound->room_mib_),
        change_(moments_ + 1) {
    room_mib_.resize(moments_);
  }

  void Build();

 protected:
  using Row = LinearProgram::Row;

  // The MiB that a variable holds over [from, to).
  struct HeldOver {
    int64_t variable = 0;
    double mib = 0;
    int64_t from = 0;
    int64_t to = 0;
  };
  int64_t AddVariable(double at_most = 1, bool whole = true) {
    program_.variables.push_back({at_most, whole});
    return static_cast<int64_t>(program_.variables.size()) - 1;
  }
  int64_t AddSum() {  // of others, of any size
    return AddVariable(std::numeric_limits<double>::infinity(),
                       /*whole=*/false);
  }
  int64_t side(int64_t c) const { return bound_.on_device_[c]; }
  int64_t sum(int64_t c) const { return bound_.summed_[c]; }
  bool sharded() const { return request_.world_size > 1; }
  const ChunkInfo& chunk(int64_t c) const { return trace_.chunks[c]; }

  // A resource works for `ms` per unit of a variable, or always. For the two
  // directions of the bus it is MiB instead where these are counted.
  static void Work(Row& row, int64_t variable, double ms) {
    if (variable >= 0) row.terms.push_back({variable, ms});
  }
  static void Always(Row& row, double ms) { row.at_most -= ms; }
  // Adds work for the part of a chunk that is on the host's side, with its sum
  // there if `and_sum`.
  void OnHost(Row& row, int64_t c, double ms, bool and_sum) {
    Always(row, ms);
    Work(row, side(c), -ms);
    if (and_sum) Work(row, sum(c), -ms);
  }
  double FetchMs(int64_t c) const {
    return TransferMs(request_.bus, chunk(c).home_bytes(),
                      request_.bus.h2d_bytes_per_s);
  }
  double CopyBackMs(int64_t bytes) const {
    return TransferMs(request_.bus, bytes, request_.bus.d2h_bytes_per_s);
  }
  double FetchWork(int64_t c) const {
    return counts_mib_ ? Mib(chunk(c).home_bytes()) : FetchMs(c);
  }
  double CopyBackWork(int64_t bytes) const {
    return counts_mib_ ? Mib(bytes) : CopyBackMs(bytes);
  }
  double ExchangeMs(int64_t c) const {
    if (!sharded()) return 0;
    return TransferMs(request_.bus,
                      chunk(c).payload_bytes - chunk(c).home_bytes(),
                      request_.bus.network_bytes_per_s);
  }

  // Adds the bytes that a variable holds over [from, to), around the step's end
  // too.
  void Hold(int64_t variable, int64_t bytes, int64_t from, int64_t to);

  void AddSides();
  // Ranks gather the payloads that they put back for the next micro batch,
  // unless gradients have a block of their own.
  void AddDeviceBlocks();
  int64_t AddStay(const Gap& gap, Side on);
  void AddHostGaps();
  // Adds further copies: gradients in the payload's place that leave before the
  // last of them is written are copied back then, too, beside the copy to their
  // reduce; so are activations that leave.
  void AddOtherCopiesBack(const UseIndex& index, int64_t c,
                          const std::vector<int64_t>& reduces,
                          const std::vector<int64_t>& stay_in);
  std::vector<Side> DeviceSides() const;
  void AddDeviceGaps();
  void AddCopyBack(int64_t c, std::vector<int64_t> stays);
  void AddOperators();
  // A chunk that does not fit as a whole is not held in part, either.
  void LeaveOutWhatIsTooLarge();
  // At each moment the MiB that are held are at most those that are left. Rows
  // have the changes alone, with a variable for the MiB that are held.
  void AddRoom();
  // Adds the MiB that cross the bus, each way and both.
  void AddMoved();
  // The step is no shorter than a resource works.
  void AddWork(Row row) {
    row.terms.push_back({0, -1.0});
    program_.rows.push_back(std::move(row));
  }

  LinearBound& bound_;
  const bool counts_mib_;  // those moved, instead of ms
  const PlanRequest& request_;
  const StepTrace& trace_;
  LinearProgram& program_;
  const int64_t chunks_;
  const int64_t moments_;
  std::vector<double>& room_mib_;
  std::vector<HeldOver> holds_;
  std::vector<std::vector<std::pair<int64_t, double>>> change_;
  std::vector<GradientBlock> possible_;
  std::map<std::pair<int64_t, int64_t>, int64_t> block_of_;
  Row h2d_, d2h_, compute_, host_, network_;
};

}  // namespace castor

#endif  // CASTOR_BENCHMARKS_LINEAR_BUILDER_H_
