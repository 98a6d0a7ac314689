// Builds a step's program (linear_bound.h): what a plan chooses, what each
// resource works for that and what is held at each moment (linear_bound.cc),
// and how long a step takes around from the norm of its gradients to the next
// one (linear_turns.cc).
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
#include "memory/plan/simulator.h"
#include "memory/plan/use_index.h"

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

 private:
  using Row = LinearProgram::Row;

  // When a step uses, writes and updates a chunk, and for how long.
  struct Round {
    int64_t first_use = -1;
    double first_ms = -1;  // of compute before it
    double last_ms = 0;    // and until its last write is over
    double reduce_ms = 0;  // of the host, of the last micro batch
    double update_ms = 0;
    const OpRecord* last_reduce = nullptr;
    bool reduced = false;
    bool reduced_unused = false;  // before its first use, as no model does
  };
  // What a variable holds over [from, to).
  struct HeldOver {
    int64_t variable = 0;
    double mib = 0;
    int64_t from = 0;
    int64_t to = 0;
  };
  // Gradients of a chunk and a micro batch, when they are written.
  struct Written {
    int64_t chunk = 0;
    double ms = 0;         // of compute until then
    double reduce_ms = 0;  // of the host
  };
  // Ranks gather a chunk at the end of a gap, unless it stays.
  struct Gather {
    int64_t chunk = 0;
    int64_t from = 0;
    int64_t to = 0;
    int64_t stay = -1;  // variable
  };
  // What follows the norm, by the number of chunks that the host has updated.
  struct Updated {
    // Variables for how long these updates take, and their fetches.
    std::vector<int64_t> update, fetch;
    std::vector<double> gathered_ms;
    // By when all of them must be back: an operator, and compute before it.
    std::vector<int64_t> use;
    std::vector<double> use_ms;
  };
  // What comes before the norm, from some gradients on to the last ones.
  struct Reduced {
    double written_ms = 0;  // compute until the first ones are written
    // Variables for how long their copies take, and their reduces.
    int64_t copies = -1;
    int64_t reduces = -1;
    double exchanged_ms = 0;  // by the network
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

  // A resource works for `ms` per unit of a variable, or of 1 without. Of the
  // two directions of the bus it is MiB instead where these are counted.
  static void Work(Row& row, int64_t variable, double ms) {
    if (variable >= 0) row.terms.push_back({variable, ms});
  }
  static void Always(Row& row, double ms) { row.at_most -= ms; }
  // For the part of a chunk that is on the host's side, its sum there if
  // `and_sum`.
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

  // What a variable holds over [from, to), around the step's end too.
  void Hold(int64_t variable, int64_t bytes, int64_t from, int64_t to);

  void AddSides();
  // What ranks put back for the next micro batch they gather, unless gradients
  // have a block.
  void AddDeviceBlocks();
  int64_t AddStay(const Gap& gap, Side on);
  void AddHostGaps();
  // Gradients in the payload's place that leave before the last of them is
  // written are copied back then, too, beside the copy to their reduce; so are
  // activations that leave.
  void AddOtherCopiesBack(const UseIndex& index, int64_t c,
                          const std::vector<int64_t>& reduces,
                          const std::vector<int64_t>& stay_in);
  std::vector<Side> DeviceSides() const;
  void AddDeviceGaps();
  void AddCopyBack(int64_t c, std::vector<int64_t> stays);
  void AddOperators();
  // What does not fit as a whole is not held in part, either.
  void LeaveOutWhatIsTooLarge();
  // At each moment what is held is at most what is left. Rows have the changes
  // alone, with a variable for what is held.
  void AddRoom();
  // What crosses the bus, each way and both.
  void AddMoved();
  // The step is no shorter than a resource works.
  void AddWork(Row row) {
    row.terms.push_back({0, -1.0});
    program_.rows.push_back(std::move(row));
  }

  // The step is no shorter, either, than a chunk of the host's side takes from
  // its first use to its first use: compute goes on to the last write before
  // some reduce, whose gradients are copied and reduced; then come the updates
  // on the host as far as the chunk's, which run in the order of the step; then
  // its fetch. All reduces are before all updates, but for steps that update at
  // once: there it is its own reduce. Of many chunks some stand for all.
  void AddRounds();
  void AddRound(int64_t c, int64_t reduced,
                const std::vector<int64_t>& updated);
  bool IsRound(int64_t c) const {
    return rounds_[c].reduced && !rounds_[c].reduced_unused;
  }
  // Where gradients are clipped, no chunk is updated before the last one's
  // gradients are there, on whichever side. So what the bus, the host and the
  // network do between some write and the norm, and between the norm and some
  // use in the next step, adds up, whoever of the chunks has its states on the
  // host: from the write of gradients r on the copies, or the reduces, of all
  // that are written with them or later, in any micro batch; after the norm the
  // updates as far as chunk i's, in the order of the step; then the fetches of
  // all that are updated with it or later and used as soon as chunk k. That
  // holds with any of the three on the device's side, too: what is left out
  // then shortens nothing. The step is a turn of it all, so r, i and k each
  // stand for a row; of many some stand for all.
  void AddTurns();
  Updated AddUpdated(const std::vector<int64_t>& updated);
  std::vector<Reduced> AddReduced();
  // The ways from the norm to the use of chunk k.
  std::vector<Row> WaysToUse(const Updated& updated, size_t k);
  // What the network has to do after operator `use` and before the norm beside
  // exchanging gradients: all gathers for later operators, but for what there
  // was room for at the operator that leaves the least.
  Row GathersAfter(int64_t use);
  // Whether number i is one of about `some` that stand for all `size`. The last
  // one is.
  static bool IsOneOfSome(size_t i, size_t size, size_t some) {
    return (size - 1 - i) % std::max<size_t>(1, size / some) == 0;
  }
  // A chunk, and for how long something works for as much of it as is on the
  // host, and whose gradients are added up there if `and_sum`.
  struct Link {
    int64_t chunk = 0;
    double ms = 0;
    bool and_sum = false;
  };
  // Adds a variable for the ms of these links and all before them.
  int64_t AddToChain(int64_t before, const std::vector<Link>& links);

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
  std::vector<Round> rounds_;
  std::vector<Written> written_;
  int64_t last_write_ = -1;  // the operator
  std::vector<Gather> gathers_;
  double compute_ms_ = 0;  // of the model's operators
  Row h2d_, d2h_, compute_, host_, network_;
};

}  // namespace castor

#endif  // CASTOR_BENCHMARKS_LINEAR_BUILDER_H_
