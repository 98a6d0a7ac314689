#include "memory/plan/simulate/simulated_memory.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace castor {
namespace {

using Span = SimulatedMemory::Span;

constexpr int64_t kTaken = -1;
constexpr int64_t kEver = std::numeric_limits<int64_t>::max();

// The same byte by byte: from when each one is free.
class Bytes {
 public:
  explicit Bytes(int64_t bytes) : from_ns_(bytes, 0) {}

  void Give(Span span, int64_t from_ns) {
    std::fill_n(from_ns_.begin() + span.offset, span.bytes, from_ns);
  }

  std::vector<int64_t> TakeLow(int64_t bytes, int64_t ready_ns,
                               int64_t* from_ns) {
    for (const int64_t limit_ns : {ready_ns, kEver}) {
      for (int64_t at = 0; at + bytes <= size(); ++at) {
        std::vector<int64_t> taken;
        for (int64_t i = at; i < at + bytes && IsFree(i, limit_ns); ++i) {
          taken.push_back(i);
        }
        if (static_cast<int64_t>(taken.size()) < bytes) continue;
        return Take(taken, from_ns);
      }
    }
    std::vector<int64_t> taken;
    for (int64_t i = 0; static_cast<int64_t>(taken.size()) < bytes; ++i) {
      if (IsFree(i, kEver)) taken.push_back(i);
    }
    return Take(taken, from_ns);
  }

  std::vector<int64_t> TakeHigh(int64_t bytes, int64_t ready_ns,
                                int64_t* from_ns) {
    std::vector<int64_t> taken;
    for (const int64_t limit_ns : {ready_ns, kEver}) {
      for (int64_t i = size() - 1; i >= 0; --i) {
        if (static_cast<int64_t>(taken.size()) == bytes) break;
        if (!IsFree(i, limit_ns)) continue;
        Take({i}, from_ns);
        taken.push_back(i);
      }
    }
    return taken;
  }

  int64_t free_bytes() const {
    return size() - std::count(from_ns_.begin(), from_ns_.end(), kTaken);
  }

 private:
  int64_t size() const { return static_cast<int64_t>(from_ns_.size()); }
  bool IsFree(int64_t i, int64_t limit_ns) const {
    return from_ns_[i] != kTaken && from_ns_[i] <= limit_ns;
  }
  std::vector<int64_t> Take(std::vector<int64_t> taken, int64_t* from_ns) {
    for (const int64_t i : taken) {
      *from_ns = std::max(*from_ns, from_ns_[i]);
      from_ns_[i] = kTaken;
    }
    return taken;
  }

  std::vector<int64_t> from_ns_;
};

template <typename Spans>
std::vector<int64_t> BytesOf(const Spans& spans) {
  std::vector<int64_t> bytes;
  for (const Span& span : spans) {
    for (int64_t i = 0; i < span.bytes; ++i) bytes.push_back(span.offset + i);
  }
  std::sort(bytes.begin(), bytes.end());
  return bytes;
}

RC_GTEST_PROP(SimulatedMemory, AgreesWithBytes, ()) {
  const auto below = [](int64_t n) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int64_t>(0, n));
  };
  // With many bytes there are many holes at once.
  const bool many = below(2) == 0;
  const int64_t all = many ? 200 : 48;
  SimulatedMemory memory(all);
  Bytes bytes(all);
  std::vector<Span> taken;
  int64_t now_ns = 0;
  for (int i = 0; i < (many ? 200 : 60); ++i) {
    if (below(4) == 0) now_ns += below(3);
    if (below(6) == 0) memory.Forget(now_ns);
    if (below(many ? 3 : 2) == 0 && !taken.empty()) {
      const int64_t which = below(static_cast<int64_t>(taken.size()));
      const int64_t from_ns = now_ns + below(4);
      memory.Give(taken[which], from_ns);
      bytes.Give(taken[which], from_ns);
      taken.erase(taken.begin() + which);
      continue;
    }
    if (bytes.free_bytes() == 0) continue;
    const int64_t wanted = 1 + below(std::min<int64_t>(8, bytes.free_bytes()));
    int64_t memory_ns = now_ns, bytes_ns = now_ns;
    std::vector<int64_t> expected;
    std::vector<Span> spans;
    if (below(2) == 0) {
      const SimulatedMemory::Spans low =
          memory.TakeLow(wanted, now_ns, &memory_ns);
      spans.assign(low.begin(), low.end());
      expected = bytes.TakeLow(wanted, now_ns, &bytes_ns);
    } else {
      const int64_t ready_ns = now_ns + below(3);
      memory.TakeHigh(wanted, ready_ns, &memory_ns, &spans);
      expected = bytes.TakeHigh(wanted, ready_ns, &bytes_ns);
    }
    std::sort(expected.begin(), expected.end());
    RC_ASSERT(BytesOf(spans) == expected);
    RC_ASSERT(memory_ns == bytes_ns);
    taken.insert(taken.end(), spans.begin(), spans.end());
  }
}

}  // namespace
}  // namespace castor
