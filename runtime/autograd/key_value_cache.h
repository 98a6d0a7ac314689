// The keys and values of the positions that a model has read, kept for the
// tokens that come after them, so that the next token costs one position
// instead of all.
//
// A sequence is read in passes: the prompt, then token after token. The engine
// that carries them out has the cache (Engine::set_cache); each attention finds
// its own part of it by its site, puts the pass's keys and values in, and looks
// at all that are there. Positions count from the sequence's start
// (Engine::first_position).
//
// Its blocks are non-model data of the device that stay over passes. A dry pass
// meets the sites and their widths (Meet), then they get their blocks (Hold):
// so every pass has all of them from its first operator on, which makes its
// trace, and the plan that is proven from it, right for all passes of its
// length.
#ifndef CASTOR_RUNTIME_AUTOGRAD_KEY_VALUE_CACHE_H_
#define CASTOR_RUNTIME_AUTOGRAD_KEY_VALUE_CACHE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/tensor.h"

namespace castor {

class KeyValueCache {
 public:
  // For one sequence of up to `capacity` positions.
  explicit KeyValueCache(int64_t capacity) : capacity_(capacity) {}

  // The keys and values that one attention keeps, [1, S, K D], S the capacity;
  // no tensors before Hold.
  struct Entry {
    std::string site;
    int64_t width = 0;  // K D, elements of a position
    DType dtype = DType::kFloat32;
    Tensor keys = {}, values = {};
  };

  // The entry of an attention, which it makes where there is none yet.
  // FailedPrecondition: blocks are held already, or its width is another.
  absl::StatusOr<Entry*> Meet(absl::string_view site, int64_t width,
                              DType dtype);
  // Gives every entry its blocks, on the engine's backend, which outlives them.
  absl::Status Hold(Engine& engine);
  bool held() const { return held_; }

  int64_t capacity() const { return capacity_; }
  // Positions that earlier passes have read.
  int64_t length() const { return length_; }
  // A pass over `positions` more is issued. OutOfRange: there is no room.
  absl::Status Advance(int64_t positions);
  // Forgets all positions: another sequence begins.
  void Restart() { length_ = 0; }

 private:
  const int64_t capacity_;
  int64_t length_ = 0;
  bool held_ = false;
  std::vector<Entry> entries_;  // in the order of the model's sites
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_AUTOGRAD_KEY_VALUE_CACHE_H_
