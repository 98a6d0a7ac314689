#include "runtime/data/row_packing.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/philox.h"
#include "runtime/data/permutation.h"

namespace castor {
namespace {

constexpr char kRows[] = "data/rows";

}  // namespace

RowPacking::RowPacking(std::vector<int32_t> lengths, int64_t row_length,
                       bool shuffle, uint64_t seed)
    : lengths_(std::move(lengths)) {
  CASTOR_CHECK(!lengths_.empty() &&
               static_cast<int64_t>(lengths_.size()) <= kMostRecords);
  for (const int32_t length : lengths_) {
    CASTOR_CHECK(length >= 1 && length <= row_length);
  }
  if (shuffle) {
    PackByLength(row_length);
  } else {
    PackInOrder(row_length);
  }
  order_ = {.num_samples = static_cast<int64_t>(row_begin_.size()) - 1,
            .shuffle = shuffle,
            .seed = seed};
}

void RowPacking::PackInOrder(int64_t row_length) {
  int64_t left = 0;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    if (lengths_[i] > left) {
      row_begin_.push_back(static_cast<uint32_t>(i));
      left = row_length;
    }
    left -= lengths_[i];
  }
  row_begin_.push_back(static_cast<uint32_t>(lengths_.size()));
}

void RowPacking::PackByLength(int64_t row_length) {
  const size_t count = lengths_.size();
  // Counting sort.
  length_begin_.assign(static_cast<size_t>(row_length) + 2, 0);
  for (const int32_t length : lengths_) ++length_begin_[length + 1];
  std::partial_sum(length_begin_.begin(), length_begin_.end(),
                   length_begin_.begin());
  by_length_.resize(count);
  std::vector<uint32_t> next = length_begin_;
  for (size_t i = 0; i < count; ++i) {
    by_length_[next[lengths_[i]]++] = static_cast<uint32_t>(i);
  }
  // The rows by the room that they have left.
  std::map<int64_t, std::vector<uint32_t>> rows_with_room;
  std::vector<uint32_t> row_of(count);
  uint32_t rows = 0;
  for (size_t i = count; i-- > 0;) {
    const int64_t length = lengths_[by_length_[i]];
    const auto best = rows_with_room.lower_bound(length);
    int64_t room = row_length;
    if (best == rows_with_room.end()) {
      row_of[i] = rows++;
    } else {
      room = best->first;
      row_of[i] = best->second.back();
      best->second.pop_back();
      if (best->second.empty()) rows_with_room.erase(best);
    }
    if (room > length) rows_with_room[room - length].push_back(row_of[i]);
  }
  lengths_ = {};  // length_begin_ has them
  row_begin_.assign(rows + 1, 0);
  for (const uint32_t row : row_of) ++row_begin_[row + 1];
  std::partial_sum(row_begin_.begin(), row_begin_.end(), row_begin_.begin());
  next.assign(row_begin_.begin(), row_begin_.end());
  places_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    places_[next[row_of[i]]++] = static_cast<uint32_t>(i);
  }
}

std::vector<RowPacking::Record> RowPacking::RowAt(int64_t position) const {
  const auto row = static_cast<size_t>(order_.At(position));
  std::vector<Record> records;
  for (uint32_t place = row_begin_[row]; place < row_begin_[row + 1]; ++place) {
    if (!order_.shuffle) {
      records.push_back({place, lengths_[place]});
      continue;
    }
    const uint32_t record = places_[place];
    // The first length that begins after the record's own.
    const auto after =
        std::upper_bound(length_begin_.begin(), length_begin_.end(), record);
    const auto length = after - length_begin_.begin() - 1;
    const int64_t begin = after[-1];
    const auto epoch = static_cast<uint64_t>(position / rows());
    const RandomKey key{
        order_.seed, MixKey(MixKey(HashName(kRows, sizeof(kRows) - 1), epoch),
                            static_cast<uint64_t>(length))};
    const int64_t drawn = PermutedIndex(key, *after - begin, record - begin);
    records.push_back({by_length_[static_cast<size_t>(begin + drawn)],
                       static_cast<int32_t>(length)});
  }
  return records;
}

}  // namespace castor
