// Checks whether a client's device has room for the next actions of its run.
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

// Each function looks at the arena and the store as they are at the call. All
// outlive this object.
class ClientRoom {
 public:
  ClientRoom(const ChunkLayout& layout, const Arena& arena,
             const ChunkStore& store)
      : layout_(layout), arena_(arena), store_(store) {}

  // Returns true if the chunks of these parameters, and no others, fit.
  bool NarrowFits(const std::vector<ParamId>& parameters) const;
  // Returns true if the largest trainable chunk of the device's side, and no
  // other, fits.
  bool SideFits() const;
  // Returns true if what the plan has on the device when a step begins fits in
  // `free_bytes`. `accumulate`: optimizer states have sums of gradients.
  bool PlanFits(const Plan& plan, int64_t free_bytes, bool accumulate) const;
  // Returns true if the plan's actions at moments [begin, end) fit beside what
  // is on the device.
  bool ActionsFit(const Plan& plan, int64_t begin, int64_t end) const;

 private:
  const ChunkLayout& layout_;
  const Arena& arena_;
  const ChunkStore& store_;
};

}  // namespace castor

#endif  // CASTOR_CLIENT_CLIENT_ROOM_H_
