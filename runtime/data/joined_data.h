// Several data sets as one, and several runs of tokens as one.
#ifndef CASTOR_RUNTIME_DATA_JOINED_DATA_H_
#define CASTOR_RUNTIME_DATA_JOINED_DATA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/data/data_set.h"
#include "runtime/data/token_source.h"

namespace castor {

// A data set and how much of it an epoch has: round(weight x its n), at least
// one sample.
struct WeightedData {
  std::unique_ptr<DataSet> data;
  double weight = 1;
};

// The samples of `members`, which are not null. An epoch has m_i samples of
// member i. Which ones goes on from epoch to epoch: draw d of member i is its
// position d, and epoch e has its draws [e m_i, (e + 1) m_i). So with a weight
// of 2 each of its samples comes twice in an epoch, and with 0.5 half of them
// come, the others in the next one. Within an epoch the samples of all members
// stand in one order (sample_order.h): mixed if `shuffle`, else member after
// member. All of it follows from position and seed. One member of weight 1 is
// returned as it is.
//
// InvalidArgument: an epoch would have 2^62 samples or more.
absl::StatusOr<std::unique_ptr<DataSet>> JoinData(
    std::vector<WeightedData> members, bool shuffle, uint64_t seed);

// The tokens of `sources`, of which there is at least one, in their order.
// Where `separators` (as many as sources) has a token, not -1, after a source
// that is not the last, it stands between that one and the next.
std::shared_ptr<const TokenSource> JoinTokens(
    std::vector<std::shared_ptr<const TokenSource>> sources,
    const std::vector<int32_t>& separators);

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_JOINED_DATA_H_
