// Whether a client's device has room for what its run is about to do.
#ifndef CASTOR_CLIENT_CLIENT_ROOM_H_
#define CASTOR_CLIENT_CLIENT_ROOM_H_

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "memory/exec/arena.h"
#include "memory/exec/chunk_store.h"
#include "memory/plan/layout/chunk_layout.h"
#include "memory/plan/plan.h"

namespace castor {

// Looks at what there is when it is asked. All outlive it.
class ClientRoom {
 public:
  ClientRoom(const ChunkLayout& layout, const Arena& arena,
             const ChunkStore& store)
      : layout_(layout), arena_(arena), store_(store) {}

  // The chunks of these parameters, and no others.
  bool NarrowFits(const std::vector<ParamId>& parameters) const;
  // The largest trainable chunk of the device's side, and no others.
  bool SideFits() const;
  // What the plan has there when a step begins, in `free_bytes`. `accumulate`:
  // optimizer states have sums of gradients.
  bool PlanFits(const Plan& plan, int64_t free_bytes, bool accumulate) const;
  // What the plan does at moments [begin, end), beside what there is.
  bool ActionsFit(const Plan& plan, int64_t begin, int64_t end) const;

 private:
  const ChunkLayout& layout_;
  const Arena& arena_;
  const ChunkStore& store_;
};

}  // namespace castor

#endif  // CASTOR_CLIENT_CLIENT_ROOM_H_
