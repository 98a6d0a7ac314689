// The common operands of attention's passes, in every type: the places of a
// head's rows, the mask, dropout.
#ifndef CASTOR_KERNELS_ATTENTION_OPERANDS_H_
#define CASTOR_KERNELS_ATTENTION_OPERANDS_H_

#include <cstdint>

#include "kernels/attention/mask.h"
#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

// One head's rows in a larger matrix: row r < count starts at first + r *
// stride.
template <class T>
struct RowsOfHead {
  T* first;
  int64_t stride;  // in elements
  int64_t count;

  CASTOR_HD T* at(int64_t row) const { return first + row * stride; }
};

// Shapes are those of kernels/attention/attention.h; `head` is b H + h, and
// `kv_head` is b K + the head of keys and values.
template <class T>
struct AttentionOperands {
  AttentionBand band;              // T, S and the mask, without documents
  int64_t heads, kv_heads, group;  // H, K, H / K
  int64_t head_size;               // D
  int64_t q_stride, kv_stride, key_rows;
  // Rows begin at multiples of 16 bytes and are made of vectors of 16 bytes.
  bool whole_vectors;
  float scale;    // of q k^T
  float softcap;  // 0: none
  bool drops;
  uint32_t threshold;
  float kept;  // factor of kept elements
  RandomKey key;
  const DocumentRange* documents;  // [B, T]; null: each sample is one
  const T *q, *k, *v;

  CASTOR_HD static int64_t Tiles(int64_t count, int64_t rows) {
    return (count + rows - 1) / rows;
  }
  CASTOR_HD int64_t KvHead(int64_t head) const {
    const Place at = PlaceOf(head, heads);
    return at.sample * kv_heads +
           static_cast<uint32_t>(at.head) / static_cast<uint32_t>(group);
  }
  // Returns head `member` of the group of query heads that use `kv_head`.
  CASTOR_HD int64_t HeadOf(int64_t kv_head, int64_t member) const {
    return kv_head * group + member;
  }

  // Returns a head's rows of q [B, T, H, D] or its gradient.
  template <class X>
  CASTOR_HD RowsOfHead<X> InQ(X* x, int64_t head) const {
    const Place at = PlaceOf(head, heads);
    return {x + at.sample * band.queries * q_stride + at.head * head_size,
            q_stride, band.queries};
  }
  // Returns the rows of a head of keys and values, of k [B, S, K, D], v or a
  // gradient.
  template <class X>
  CASTOR_HD RowsOfHead<X> InK(X* x, int64_t kv_head) const {
    const Place at = PlaceOf(kv_head, kv_heads);
    return {x + at.sample * key_rows * kv_stride + at.head * head_size,
            kv_stride, band.keys};
  }
  // Returns a head's rows of x [B, T, C].
  template <class X>
  CASTOR_HD RowsOfHead<X> InOut(X* x, int64_t head) const {
    const int64_t channels = heads * head_size;
    const Place at = PlaceOf(head, heads);
    return {x + at.sample * band.queries * channels + at.head * head_size,
            channels, band.queries};
  }
  // The number of elements before a row of [B, H, T].
  CASTOR_HD int64_t InRows(int64_t head, int64_t query) const {
    return head * band.queries + query;
  }
  CASTOR_HD uint64_t Element(int64_t head, int64_t i, int64_t j) const {
    return static_cast<uint64_t>(InRows(head, i)) *
               static_cast<uint64_t>(band.keys) +
           static_cast<uint64_t>(j);
  }
  // Returns the dropout factor of p's element; `words` is the thread's own.
  CASTOR_HD float Factor(WordReader& words, uint64_t element) const {
    return words.At(element) >= threshold ? kept : 0.0f;
  }

  // A score and its derivative with respect to q k^T scale.
  struct Scored {
    float s, slope;
  };
  CASTOR_HD Scored Score(float product) const {
    const float s = Mul(product, scale);
    if (softcap == 0.0f) return {s, 1.0f};
    const float t = tanhf(Div(s, softcap));
    return {Mul(t, softcap), Fma(-t, t, 1.0f)};
  }

  // The range of keys that any of `count` queries of a head from `begin` on
  // sees, and of queries that see any of `count` keys.
  struct Range {
    int64_t begin, end;
  };
  CASTOR_HD Range KeysOf(int64_t head, int64_t begin, int64_t count) const {
    return KeysIn(BandOf(head), begin, count);
  }
  // The same of a head's band.
  CASTOR_HD static Range KeysIn(const AttentionBand& own, int64_t begin,
                                int64_t count) {
    return {own.FirstKey(begin),
            own.EndKey(Min(begin + count, own.queries) - 1)};
  }
  CASTOR_HD Range QueriesOf(int64_t kv_head, int64_t begin,
                            int64_t count) const {
    const AttentionBand own = BandOfKeys(kv_head);
    return {own.FirstQuery(begin),
            own.EndQuery(Min(begin + count, own.keys) - 1)};
  }

  // Return the band of the sample of a head, or of a head of keys, with its
  // documents.
  CASTOR_HD AttentionBand BandOf(int64_t head) const {
    return InSample(head, heads);
  }
  CASTOR_HD AttentionBand BandOfKeys(int64_t kv_head) const {
    return InSample(kv_head, kv_heads);
  }

 private:
  struct Place {
    int64_t sample, head;
  };
  CASTOR_HD AttentionBand InSample(int64_t head, int64_t count) const {
    AttentionBand own = band;
    if (documents != nullptr) {
      own.documents = documents + PlaceOf(head, count).sample * own.queries;
    }
    return own;
  }
  // There are fewer heads in all samples than blocks in a launch, 2^31; a
  // 64-bit division would be a call.
  CASTOR_HD static Place PlaceOf(int64_t head, int64_t count) {
    const uint32_t at = static_cast<uint32_t>(head);
    const uint32_t sample = at / static_cast<uint32_t>(count);
    return {sample, at - sample * static_cast<uint32_t>(count)};
  }
};

// The keys that a query sees, [begin, end): of all keys, or in a type that is
// too small for these, of a tile.
template <class Int>
struct SeenKeys {
  Int begin, end;

  CASTOR_HD bool Has(int key) const { return begin <= key && key < end; }
};

// Returns those of a query of `band`, and after the last query those of the
// last one, so that neither bound ever falls from query to query.
CASTOR_HD SeenKeys<int> SeenBy(const AttentionBand& band, int64_t query) {
  const int64_t i = Min(query, band.queries - 1);
  return {static_cast<int>(band.FirstKey(i)), static_cast<int>(band.EndKey(i))};
}
// Returns those of the kRows keys from `first` on, as keys of this tile.
template <int kRows>
CASTOR_HD SeenKeys<uint8_t> SeenInTile(const AttentionBand& band, int64_t query,
                                       int first) {
  static_assert(kRows < 256);
  const SeenKeys<int> seen = SeenBy(band, query);
  return {static_cast<uint8_t>(Max(0, Min(seen.begin - first, kRows))),
          static_cast<uint8_t>(Max(0, Min(seen.end - first, kRows)))};
}

// Returns the shift of a row's scores before their exponentials, which keeps
// these in range: the maximum, unless the row has seen no key yet.
CASTOR_HD float RowShift(float max) {
  return max == MinusInfinity() ? 0.0f : max;
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_OPERANDS_H_
