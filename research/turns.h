// The part of a step's program (tight_bound.h) that knows how long a step takes
// from the norm of its gradients around to the next step's.
#ifndef CASTOR_RESEARCH_TURNS_H_
#define CASTOR_RESEARCH_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "benchmarks/linear_builder.h"
#include "research/tight_bound.h"
#include "tracer/step_trace.h"

namespace castor {

class TightBound::Turns : public LinearBound::Builder {
 public:
  // Adds to the program of `bound`, which has everything of the plain one.
  explicit Turns(TightBound* bound)
      : Builder(bound, Objective::kStepMs), tight_(*bound) {}
  void Add();

 private:
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
  // The work that follows the norm, by the number of chunks that the host has
  // updated.
  struct Updated {
    // Variables for how long these updates take, and their fetches.
    std::vector<int64_t> update, fetch;
    std::vector<double> gathered_ms;
    // The operator by which all of them must be back, and the ms of compute
    // before it.
    std::vector<int64_t> use;
    std::vector<double> use_ms;
  };
  // The work before the norm, from some gradients on to the last ones.
  struct Reduced {
    double written_ms = 0;  // compute until the first ones are written
    // Variables for how long their copies take, and their reduces.
    int64_t copies = -1;
    int64_t reduces = -1;
    double exchanged_ms = 0;  // by the network
  };

  // Finds `rounds_`, `written_` and the like.
  void FindRounds();
  void FindGathers();

  // The step is no shorter, either, than a chunk of the host's side takes from
  // its first use to that of the next step: compute goes on to the last write
  // before some reduce, whose gradients are copied and reduced; then come the
  // updates on the host as far as the chunk's, which run in the order of the
  // step; then its fetch. All reduces are before all updates, but for steps
  // that update at once: there it is the chunk's own reduce. If there are many
  // chunks, some stand for all.
  void AddRounds();
  void AddRound(int64_t c, int64_t reduced,
                const std::vector<int64_t>& updated);
  bool IsRound(int64_t c) const {
    return rounds_[c].reduced && !rounds_[c].reduced_unused;
  }
  // Where gradients are clipped, no chunk is updated before the last one's
  // gradients are there, on whichever side. So the work of the bus, the host
  // and the network between some write and the norm, and between the norm and
  // some use in the next step, adds up, whichever of the chunks have their
  // states on the host: from the write of gradients r on the copies, or the
  // reduces, of all that are written with them or later, in any micro batch;
  // after the norm the updates as far as chunk i's, in the order of the step;
  // then the fetches of all that are updated with it or later and used as soon
  // as chunk k. That holds with any of the three on the device's side, too:
  // what is left out then shortens nothing. The step is a turn of it all, so r,
  // i and k each stand for a row; of many some stand for all.
  void AddTurns();
  Updated AddUpdated(const std::vector<int64_t>& updated);
  std::vector<Reduced> AddReduced();
  // Returns the ways from the norm to the use of chunk k.
  std::vector<Row> WaysToUse(const Updated& updated, size_t k);
  // Returns the network's work after operator `use` and before the norm beside
  // exchanging gradients: all gathers for later operators, except those for
  // which there was room at the operator that leaves the least.
  Row GathersAfter(int64_t use);
  // Returns true if number i is one of about `some` that stand for all `size`.
  // The last one is.
  static bool IsOneOfSome(size_t i, size_t size, size_t some) {
    return (size - 1 - i) % std::max<size_t>(1, size / some) == 0;
  }
  // A chunk, and the ms that a resource works for it where it is on the host,
  // and if `and_sum`, where its gradients are added up there, too.
  struct Link {
    int64_t chunk = 0;
    double ms = 0;
    bool and_sum = false;
  };
  // Adds a variable for the ms of these links and all before them.
  int64_t AddToChain(int64_t before, const std::vector<Link>& links);

  TightBound& tight_;
  std::vector<Round> rounds_;
  std::vector<Written> written_;
  int64_t last_write_ = -1;  // the operator
  std::vector<Gather> gathers_;
  double compute_ms_ = 0;  // of the model's operators
};

}  // namespace castor

#endif  // CASTOR_RESEARCH_TURNS_H_
