// A record of what a client did in a step, use by use, and what follows from
// it: when each gradient is final, when a chunk's gradients are complete, and
// the trace that a plan is made for.
//
// A *use* is the time in which a client's operators read one set of parameters;
// it ends where the next begins. The first use of a step reads none, and the
// end of each backward is a use of its own, for gradients that are final only
// then. Each use is a compute operator of the trace; the reduces of the chunks
// that it completes come behind it, and the updates behind all uses:
//
//   use      inputs  addmm(w)  mm(v) | mm(v)     addmm(w)     end of backward
//   final                            |  v         w
//   trace     op      op        op   |  op reduce  op reduce    op   | updates
//
// A use that announces inputs has their sizes along each dimension, its
// *extents*. A step whose inputs are smaller along some of them does the same
// uses in less memory, so it can follow the script of the larger one.
#ifndef CASTOR_CLIENT_STEP_SCRIPT_H_
#define CASTOR_CLIENT_STEP_SCRIPT_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "memory/plan/layout/chunk_layout.h"
#include "tracer/step_trace.h"

namespace castor {

// A client's name of an operator, as a number.
using LabelId = Id<struct LabelIdTag>;

// Returns the operator's name with each '*' replaced by an extent, in order.
std::string NameWithExtents(absl::string_view name,
                            const std::vector<int64_t>& extents);

struct ParameterUse {
  LabelId label;
  Phase phase = Phase::kForward;
  std::vector<ParamId> parameters;    // ascending, each once
  std::vector<int64_t> extents = {};  // of announced inputs
  // The most bytes claimed at once from its beginning until the next use's.
  int64_t peak_bytes = 0;
  int64_t duration_ns = 0;
  // The parameters whose gradients take their places in it, and the chunks
  // whose gradients are complete behind it. Both ascend.
  std::vector<ParamId> final_gradients = {};
  std::vector<ChunkId> complete_chunks = {};
  bool ends_micro_batch = false;

  // Returns true if a client says the same of both, whatever their extents.
  bool IsAs(const ParameterUse& other) const {
    return label == other.label && phase == other.phase &&
           parameters == other.parameters;
  }
  // Returns true if it is as the other use, with extents that are nowhere
  // smaller.
  bool Covers(const ParameterUse& other) const {
    return IsAs(other) &&
           std::equal(extents.begin(), extents.end(), other.extents.begin(),
                      other.extents.end(), std::greater_equal<>());
  }
};

class StepScript {
 public:
  // `layout` outlives the script.
  StepScript(const ChunkLayout* layout, bool training)
      : layout_(layout), training_(training) {
    BeginMicroBatch();
  }

  bool training() const { return training_; }
  const std::vector<ParameterUse>& uses() const { return uses_; }
  // The use at hand. There must be one.
  ParameterUse& last() { return uses_.back(); }
  int64_t micro_batches() const { return micro_batches_; }

  void Add(ParameterUse use);
  // Notes that a gradient of the parameter, or a part of it, was handed in.
  void HandIn(ParamId parameter);
  // Settles where the micro batch's gradients are final. The use at hand is the
  // end of its backward. A gradient takes its place when its last part is
  // handed in; where the parameter is read after that, or nothing at all is
  // handed in, at the end.
  void EndMicroBatch();

  // Returns how often the parameter's gradient is handed in, in that micro
  // batch.
  int64_t HandIns(int64_t micro_batch, ParamId parameter) const {
    return hand_ins_[micro_batch][parameter.value].count;
  }
  // Returns true if any of its gradient was handed in, in any micro batch.
  bool HasGradient(ParamId parameter) const {
    return std::any_of(hand_ins_.begin(), hand_ins_.end(),
                       [&](const std::vector<HandInRecord>& of_micro_batch) {
                         return of_micro_batch[parameter.value].count > 0;
                       });
  }
  // The moment of use i in the trace.
  Moment MomentOf(int64_t i) const { return moments_[i]; }
  // The moment of the first update; the others follow.
  Moment FirstUpdate() const { return first_update_; }

  // Makes the trace of the whole step. `labels` [LabelId]: names.
  StepTrace MakeTrace(const std::vector<std::string>& labels, bool accumulate);

  // Returns true if all uses that both have are of the same extents.
  bool HasExtentsOf(const StepScript& other) const;
  // Returns true if both have the same uses, with the same extents and the same
  // final gradients.
  bool IsAs(const StepScript& other) const;
  // Makes each use's peak the higher one of two runs of one script. Returns
  // true if one of them rose.
  bool RaisePeaks(const StepScript& other);
  // Sets each use's peak and duration to those in `values`, which are at least
  // its own.
  void TakeHighest(absl::Span<const int64_t> values);

 private:
  struct HandInRecord {
    int64_t count = 0;
    int64_t last_use = -1;   // at which it was handed in
    int64_t last_read = -1;  // the last use in this backward that reads it
  };
  void BeginMicroBatch() { hand_ins_.emplace_back(layout_->parameters.size()); }

  const ChunkLayout* layout_;
  bool training_;
  int64_t micro_batches_ = 0;  // that have ended
  std::vector<ParameterUse> uses_;
  std::vector<std::vector<HandInRecord>> hand_ins_;  // [micro batch][ParamId]
  std::vector<Moment> moments_;                      // [use], once traced
  Moment first_update_;
};

}  // namespace castor

#endif  // CASTOR_CLIENT_STEP_SCRIPT_H_
