// The mask of attention: the keys that a query sees. They are always adjacent,
// so that a tile of queries sees one range of keys, a tile of keys is seen by
// one range of queries, and nothing outside of it is computed.
//
// The GPU's programs use this header, too.
#ifndef CASTOR_KERNELS_ATTENTION_MASK_H_
#define CASTOR_KERNELS_ATTENTION_MASK_H_

#include <cstdint>

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

  // Query i sees the keys [FirstKey(i), EndKey(i)), and key j is seen by the
  // queries [FirstQuery(j), EndQuery(j)). Both bounds rise with i and j.
  constexpr int64_t FirstKey(int64_t i) const {
    return Clamp(i + ahead() - mask.before, keys);
  }
  constexpr int64_t EndKey(int64_t i) const {
    return Clamp(i + ahead() + mask.after + 1, keys);
  }
  constexpr int64_t FirstQuery(int64_t j) const {
    return Clamp(j - ahead() - mask.after, queries);
  }
  constexpr int64_t EndQuery(int64_t j) const {
    return Clamp(j - ahead() + mask.before + 1, queries);
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
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ATTENTION_MASK_H_
