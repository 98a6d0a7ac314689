#include "memory/plan/blocks/block_uses.h"

#include <algorithm>
#include <set>
#include <utility>

namespace castor {
namespace {

// Gives `use` to so many blocks in [begin, end), as evenly as can be, the first
// one among them.
void Spread(int64_t begin, int64_t end, int64_t count, BlockUse use,
            BlockUses* uses) {
  const int64_t length = end - begin;
  for (int64_t i = 0; i < length; ++i) {
    if (i * count % length < count) (*uses)[begin + i] = use;
  }
}

}  // namespace

BlockUses Arrange(Arrangement arrangement, int64_t blocks, int64_t offloaded,
                  int64_t remade) {
  BlockUses uses(blocks, BlockUse::kKept);
  const auto fill = [&](int64_t begin, int64_t end, BlockUse use) {
    std::fill(uses.begin() + begin, uses.begin() + end, use);
  };
  const int64_t both = offloaded + remade;
  switch (arrangement) {
    case Arrangement::kOffloadedFirst:
      fill(0, offloaded, BlockUse::kOffloaded);
      fill(offloaded, both, BlockUse::kRemade);
      break;
    case Arrangement::kRemadeFirst:
      fill(0, remade, BlockUse::kRemade);
      fill(remade, both, BlockUse::kOffloaded);
      break;
    case Arrangement::kAlternating:
      fill(0, both, BlockUse::kRemade);
      Spread(0, both, offloaded, BlockUse::kOffloaded, &uses);
      break;
    case Arrangement::kRemadeSpread:
      fill(0, offloaded, BlockUse::kOffloaded);
      Spread(offloaded, blocks, remade, BlockUse::kRemade, &uses);
      break;
    case Arrangement::kOffloadedSpread:
      fill(0, remade, BlockUse::kRemade);
      Spread(remade, blocks, offloaded, BlockUse::kOffloaded, &uses);
      break;
  }
  return uses;
}

std::vector<BlockUses> Neighbours(const BlockUses& uses) {
  std::vector<BlockUses> neighbours;
  std::set<BlockUses> known = {uses};
  const auto enter = [&](BlockUses other) {
    if (known.insert(other).second) neighbours.push_back(std::move(other));
  };
  for (size_t i = 0; i + 1 < uses.size(); ++i) {
    if (uses[i] == uses[i + 1]) continue;
    BlockUses left = uses, right = uses, both = uses;
    left[i + 1] = uses[i];
    right[i] = uses[i + 1];
    std::swap(both[i], both[i + 1]);
    enter(std::move(left));
    enter(std::move(right));
    enter(std::move(both));
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    for (const BlockUse use :
         {BlockUse::kKept, BlockUse::kRemade, BlockUse::kOffloaded}) {
      BlockUses other = uses;
      other[i] = use;
      enter(std::move(other));
    }
  }
  return neighbours;
}

}  // namespace castor
