// Which records share a row: several short ones one after another, so that few
// of a row's positions are padding.
//
// In order, without shuffling, a row takes records until the next one has no
// room. With shuffling, rows are planned by length: from the longest record to
// the shortest, each goes into the row that it fills best (best fit
// decreasing; Johnson, "Near-optimal bin packing algorithms", 1973), so a row
// is a list of lengths. Each epoch draws anew which of the records of a length
// stands at which of the places for that length, and in which order the rows
// come.
//
// So all epochs have the same number of rows, and what a row has follows from
// its position, the seed and the records' lengths alone: a position is all
// there is to save and to resume.
#ifndef CASTOR_RUNTIME_DATA_ROW_PACKING_H_
#define CASTOR_RUNTIME_DATA_ROW_PACKING_H_

#include <cstdint>
#include <vector>

#include "runtime/data/sample_order.h"

namespace castor {

// Immutable; any number of threads may use it. Holds 8 bytes for each record,
// and 4 for each row and token of a row.
class RowPacking {
 public:
  static constexpr int64_t kMostRecords = (int64_t{1} << 32) - 2;

  struct Record {
    int64_t index = 0;
    int32_t length = 0;

    friend bool operator==(const Record&, const Record&) = default;
  };

  // lengths[i] in [1, row_length] is that of record i; there is at least one,
  // and at most kMostRecords.
  RowPacking(std::vector<int32_t> lengths, int64_t row_length, bool shuffle,
             uint64_t seed);

  // R, rows in an epoch.
  int64_t rows() const { return order_.num_samples; }
  // The records of the row at `position` of a run that goes through R rows
  // again and again. Their lengths' sum is at most the row's length. Each epoch
  // has each record once.
  std::vector<Record> RowAt(int64_t position) const;

 private:
  void PackInOrder(int64_t row_length);
  void PackByLength(int64_t row_length);

  // Row r has the places [row_begin_[r], row_begin_[r + 1]).
  std::vector<uint32_t> row_begin_;
  // In order, place i has record i, of this length.
  std::vector<int32_t> lengths_;
  // Shuffled: the records from the shortest to the longest; where those of each
  // length begin among them; and for each place one of them, whose length it
  // has.
  std::vector<uint32_t> by_length_;
  std::vector<uint32_t> length_begin_;
  std::vector<uint32_t> places_;
  SampleOrder order_;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_ROW_PACKING_H_
