#include "runtime/data/row_packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "base/philox.h"

namespace castor {
namespace {

using Record = RowPacking::Record;

// Lengths from 1 to `most`, mostly short ones.
std::vector<int32_t> RandomLengths(uint64_t seed, int64_t count, int32_t most) {
  std::vector<int32_t> lengths;
  for (int64_t i = 0; i < count; ++i) {
    const auto words = Philox4x32({seed, 1}, static_cast<uint64_t>(i));
    const uint32_t half = words[1] % static_cast<uint32_t>(most) + 1;
    lengths.push_back(static_cast<int32_t>(words[0] % half + 1));
  }
  return lengths;
}

TEST(RowPacking, EveryEpochHasEachRecordOnceInRowsThatHaveRoom) {
  uint64_t seed = 0;
  for (const int64_t count : {1, 2, 7, 300}) {
    for (const int32_t length : {1, 2, 16, 50}) {
      for (const bool shuffle : {false, true}) {
        SCOPED_TRACE(testing::Message() << count << " " << length);
        const auto lengths = RandomLengths(++seed, count, length);
        const RowPacking packing(lengths, length, shuffle, seed);
        const int64_t total =
            std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
        ASSERT_GE(packing.rows() * length, total);
        ASSERT_LE(packing.rows(), count);
        for (int64_t epoch = 0; epoch < 3; ++epoch) {
          std::vector<int64_t> seen;
          for (int64_t row = 0; row < packing.rows(); ++row) {
            int64_t sum = 0;
            const auto records = packing.RowAt(epoch * packing.rows() + row);
            ASSERT_FALSE(records.empty());
            for (const Record& record : records) {
              ASSERT_EQ(record.length, lengths[record.index]);
              sum += record.length;
              seen.push_back(record.index);
            }
            ASSERT_LE(sum, length);
          }
          if (shuffle) std::sort(seen.begin(), seen.end());
          std::vector<int64_t> all(count);
          std::iota(all.begin(), all.end(), 0);
          ASSERT_EQ(seen, all);  // in their order, where nothing is shuffled
        }
      }
    }
  }
}

// Best fit decreasing: 7 + 3, 6 + 4, 5 + 5 of 10, by hand.
TEST(RowPacking, FillsRowsBestByLength) {
  const std::vector<int32_t> lengths = {3, 5, 7, 4, 5, 6};
  const RowPacking by_length(lengths, 10, /*shuffle=*/true, 1);
  EXPECT_EQ(by_length.rows(), 3);
  std::set<std::multiset<int32_t>> rows;
  for (int64_t row = 0; row < 3; ++row) {
    std::multiset<int32_t> in_row;
    for (const Record& record : by_length.RowAt(row)) {
      in_row.insert(record.length);
    }
    rows.insert(in_row);
  }
  EXPECT_EQ(rows, (std::set<std::multiset<int32_t>>{{3, 7}, {4, 6}, {5, 5}}));
  // In order: 3 + 5, 7, 4 + 5, 6.
  const RowPacking in_order(lengths, 10, /*shuffle=*/false, 1);
  EXPECT_EQ(in_order.rows(), 4);
  EXPECT_EQ(in_order.RowAt(4),
            (std::vector<Record>{{0, 3}, {1, 5}}));  // the next epoch's first
}

// A bound for any packing: no two rows could be one, so all but one are more
// than half full. The usual packing is far better.
TEST(RowPacking, LeavesLittleRoom) {
  const auto lengths = RandomLengths(5, 5000, 200);
  const int64_t total =
      std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const RowPacking packing(lengths, 512, /*shuffle=*/true, 1);
  EXPECT_LE(packing.rows() * 512, total + total / 100);
}

TEST(RowPacking, EpochsAndSeedsDrawOtherNeighbours) {
  const std::vector<int32_t> lengths(64, 4);
  const auto pairs = [&](uint64_t seed, int64_t epoch) {
    const RowPacking packing(lengths, 8, /*shuffle=*/true, seed);
    std::vector<std::vector<Record>> rows;
    for (int64_t row = 0; row < packing.rows(); ++row) {
      rows.push_back(packing.RowAt(epoch * packing.rows() + row));
    }
    return rows;
  };
  EXPECT_EQ(pairs(1, 0), pairs(1, 0));
  EXPECT_NE(pairs(1, 0), pairs(1, 1));
  EXPECT_NE(pairs(1, 0), pairs(2, 0));
  const auto neighbours = [&](int64_t epoch) {
    std::set<std::pair<int64_t, int64_t>> found;
    for (const auto& row : pairs(1, epoch)) {
      found.insert(std::minmax(row[0].index, row[1].index));
    }
    return found;
  };
  EXPECT_NE(neighbours(0), neighbours(1));
}

}  // namespace
}  // namespace castor
