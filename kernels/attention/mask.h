// The mask of attention: the keys that a query sees. They are always adjacent,
// so that a tile of queries sees one range of keys, a tile of keys is seen by
// one range of queries, and nothing outside of it is computed. That is also so
// where several documents share a sample and each query sees its own one's
// keys alone.
//
// The GPU's programs use this header, too.
#ifndef CASTOR_KERNELS_ATTENTION_MASK_H_
#define CASTOR_KERNELS_ATTENTION_MASK_H_

#include <cstdint>

#include "base/document_range.h"

namespace castor::kernels {

// A query sees the key at its own place, `before` keys before it and `after`
// keys after it.
struct AttentionMask {
  // Far more than there are keys.
  static constexpr int64_t kUnbounded = int64_t{1} << 40;

  int64_t before = kUnbounded;
  int64_t after = kUnbounded;

  static constexpr AttentionMask All() { return {}; }
  // Admits the keys up to the query's own place: the last `window` of them, or
  // all (0).
  static constexpr AttentionMask Causal(int64_t window = 0) {
    return {window > 0 ? window - 1 : kUnbounded, 0};
  }
  constexpr bool bounded() const {
    return before < kUnbounded || after < kUnbounded;
  }
};

// A mask over `queries` and `keys`. The last query stands at the last key, so
// query i's place is keys - queries + i: if keys are kept from earlier calls,
// the queries are the newest positions.
struct AttentionBand {
  int64_t queries = 0;
  int64_t keys = 0;
  AttentionMask mask;
  // The document of each position of the sample, which then has as many keys as
  // queries and a mask that is causal or admits all keys. Null: the sample is
  // one document.
  const DocumentRange* documents = nullptr;

  // Query i sees the keys [FirstKey(i), EndKey(i)), and key j is seen by the
  // queries [FirstQuery(j), EndQuery(j)). Both bounds rise with i and j.
  constexpr int64_t FirstKey(int64_t i) const {
    return NotBefore(Clamp(i + ahead() - mask.before, keys), i);
  }
  constexpr int64_t EndKey(int64_t i) const {
    return NotAfter(Clamp(i + ahead() + mask.after + 1, keys), i);
  }
  constexpr int64_t FirstQuery(int64_t j) const {
    return NotBefore(Clamp(j - ahead() - mask.after, queries), j);
  }
  constexpr int64_t EndQuery(int64_t j) const {
    return NotAfter(Clamp(j - ahead() + mask.before + 1, queries), j);
  }
  constexpr bool Sees(int64_t i, int64_t j) const {
    return FirstKey(i) <= j && j < EndKey(i);
  }
  // The place of query 0.
  constexpr int64_t ahead() const { return keys - queries; }

 private:
  static constexpr int64_t Clamp(int64_t x, int64_t end) {
    return x < 0 ? 0 : x < end ? x : end;
  }
  // Return `bound`, moved to the begin or the end of the document of `position`
  // where it lies outside of it. Positions behind the last one, which a tile
  // may have, are in no document.
  constexpr int64_t NotBefore(int64_t bound, int64_t position) const {
    if (documents == nullptr || position >= queries) return bound;
    const int64_t begin = documents[position].begin;
    return bound < begin ? begin : bound;
  }
  constexpr int64_t NotAfter(int64_t bound, int64_t position) const {
    if (documents == nullptr || position >= queries) return bound;
    const int64_t end = documents[position].end;
    return bound > end ? end : bound;
  }
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ATTENTION_MASK_H_
