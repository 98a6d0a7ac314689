// The oracle of the host's attention kernels: attention.h's formulas, in double
// and element by element.
#ifndef CASTOR_KERNELS_ATTENTION_ORACLE_H_
#define CASTOR_KERNELS_ATTENTION_ORACLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/trial.h"

namespace castor::kernels {

// The computation to test. It specifies the mask in its own terms, so that the
// kernel's mask is not tested against itself.
struct AttentionSpec {
  AttentionShape shape;
  bool causal = true;
  int64_t window = 0;             // 0: none
  bool interleave_heads = false;  // a mistake: head h uses h % K
  // Lengths of documents, as DocumentsOfLengths takes them; none: each sample
  // is one.
  std::vector<int64_t> lengths = {};

  // Returns the same with `kv_heads` heads of keys, `extra_keys` more keys than
  // queries, and another window.
  AttentionSpec With(int64_t kv_heads, int64_t extra_keys,
                     int64_t new_window) const;
  AttentionShape Shape() const;
};

AttentionSpec SpecOf(int64_t batch, int64_t positions, int64_t heads,
                     int64_t head_size, bool causal = true, float dropout = 0);

// Describes `spec` for messages.
std::string Name(const AttentionSpec& spec);

// Letters as in attention.h: a row is one query of one head.
class AttentionOracle {
 public:
  explicit AttentionOracle(const AttentionSpec& spec);

  // x: q, k, v.
  void Forward(const std::vector<double> (&x)[3]);

  // Call it after Forward(x). Delta is computed from `given_out`.
  void Backward(const std::vector<double> (&x)[3],
                const std::vector<double>& given_out,
                const std::vector<double>& dout);

  AttentionSpec spec;
  AttentionShape s;
  int64_t group, rows;
  double scale;
  std::vector<DocumentRange> documents;  // [B, T], or none
  std::vector<double> p, slope, lse, out;
  std::vector<double> dx[3];
  std::vector<double> columns;  // sums of p over the queries that meet a key
  // The largest sum of magnitudes of a score, and of a gradient of p; the
  // largest |v|.
  double largest_score = 0, largest_dp = 0, largest_value = 0;

 private:
  // The number of elements before a head's row of q, and of k and v.
  int64_t Q(int64_t b, int64_t h, int64_t i) const;
  int64_t K(int64_t b, int64_t h, int64_t j) const;
  int64_t KvHead(int64_t h) const;
  bool Counts(int64_t b, int64_t i, int64_t j) const;
  double Factor(int64_t row, int64_t j) const;
  // Calls fn(b, h, i, row) for each row.
  template <typename Fn>
  void ForRows(const Fn& fn) const;
};

// Describes where the trial's results differ from those of `spec` by more than
// rounding errors; empty: nowhere.
std::string Disagreement(const AttentionTrial& run, const AttentionSpec& spec);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ATTENTION_ORACLE_H_
