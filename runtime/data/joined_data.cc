#include "runtime/data/joined_data.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/data/sample_order.h"

namespace castor {
namespace {

// The last of the ascending `begins`, of which the first is 0, that is not
// after `at`.
size_t PlaceOf(const std::vector<int64_t>& begins, int64_t at) {
  return static_cast<size_t>(
      std::upper_bound(begins.begin(), begins.end(), at) - begins.begin() - 1);
}

class JoinedData : public DataSet {
 public:
  struct Member {
    std::unique_ptr<DataSet> data;
    int64_t drawn = 0;  // in an epoch
  };

  JoinedData(std::vector<Member> members, bool shuffle, uint64_t seed)
      : members_(std::move(members)) {
    int64_t samples = 0;
    for (const Member& member : members_) {
      begins_.push_back(samples);
      samples += member.drawn;
    }
    order_ = {.num_samples = samples, .shuffle = shuffle, .seed = seed};
  }

  int64_t num_samples() const override { return order_.num_samples; }

  absl::Status FillBatch(int64_t first_position, int64_t batch, int32_t* tokens,
                         int32_t* targets) const override {
    const int64_t t = sequence_length();
    return ForEachDraw(first_position, batch,
                       [&](int64_t b, const DataSet& data, int64_t draw) {
                         return data.FillBatch(draw, 1, tokens + b * t,
                                               targets + b * t);
                       });
  }

  absl::Status FillDocuments(int64_t first_position, int64_t batch,
                             DocumentRange* documents) const override {
    return ForEachDraw(first_position, batch,
                       [&](int64_t b, const DataSet& data, int64_t draw) {
                         return data.FillDocuments(
                             draw, 1, documents + b * sequence_length());
                       });
  }

  absl::Status FillSegments(int64_t first_position, int64_t batch,
                            int32_t* segments) const override {
    return ForEachDraw(first_position, batch,
                       [&](int64_t b, const DataSet& data, int64_t draw) {
                         return data.FillSegments(
                             draw, 1, segments + b * sequence_length());
                       });
  }

  int64_t sequence_length() const override {
    return members_[0].data->sequence_length();
  }

  int64_t LengthAt(int64_t position) const override {
    const auto [member, draw] = DrawAt(position);
    return members_[member].data->LengthAt(draw);
  }

  absl::StatusOr<std::string> Check(int64_t all,
                                    int64_t sample) const override {
    std::string identities;
    for (const Member& member : members_) {
      CASTOR_ASSIGN_OR_RETURN(const std::string identity,
                              member.data->Check(all, sample));
      absl::StrAppend(&identities, identity, ", ", member.drawn, "\n");
    }
    return absl::StrCat(
        members_.size(), " sources, ", num_samples(), " samples, checksum ",
        absl::Hex(XXH3_64bits(identities.data(), identities.size())));
  }

  absl::StatusOr<LabelCount> CountLabels() const override {
    LabelCount sum;
    for (const Member& member : members_) {
      CASTOR_ASSIGN_OR_RETURN(const LabelCount count,
                              member.data->CountLabels());
      sum.samples += count.samples;
      sum.unlabelled += count.unlabelled;
      sum.never += count.never;
      sum.reach = std::max(sum.reach, count.reach);
      sum.is_part |= count.is_part;
      sum.labels += Drawn(member, count.labels);
    }
    return sum;
  }

  absl::StatusOr<SampleLengths> CountTokens() const override {
    SampleLengths sum;
    int64_t records = 0;
    bool shares = false;
    for (const Member& member : members_) {
      CASTOR_ASSIGN_OR_RETURN(const SampleLengths lengths,
                              member.data->CountTokens());
      sum.samples += member.drawn;
      sum.tokens += Drawn(member, lengths.tokens);
      // Where no member's records share rows, samples are all there is.
      shares |= lengths.records > 0;
      records += Drawn(member, lengths.num_records());
      sum.longest = std::max(sum.longest, lengths.longest);
      sum.cut += Drawn(member, lengths.cut);
    }
    if (shares) sum.records = records;
    return sum;
  }

 private:
  struct Draw {
    size_t member = 0;
    int64_t position = 0;  // in it
  };
  Draw DrawAt(int64_t position) const {
    const int64_t place = order_.At(position);
    const size_t i = PlaceOf(begins_, place);
    const int64_t epoch = position / order_.num_samples;
    return {i, epoch * members_[i].drawn + (place - begins_[i])};
  }

  // Calls fn(b, member, position in it) for each position, which is `b` after
  // the first.
  template <typename Fn>
  absl::Status ForEachDraw(int64_t first_position, int64_t batch, Fn fn) const {
    for (int64_t b = 0; b < batch; ++b) {
      const auto [member, draw] = DrawAt(first_position + b);
      CASTOR_RETURN_IF_ERROR(fn(b, *members_[member].data, draw));
    }
    return absl::OkStatus();
  }

  // Returns the part of `count`, a count over all of the member's samples, that
  // an epoch has on average.
  static int64_t Drawn(const Member& member, int64_t count) {
    if (member.drawn == member.data->num_samples()) return count;
    return std::llround(static_cast<double>(count) *
                        static_cast<double>(member.drawn) /
                        static_cast<double>(member.data->num_samples()));
  }

  const std::vector<Member> members_;
  std::vector<int64_t> begins_;  // in an epoch that is not shuffled
  SampleOrder order_;
};

class JoinedTokens : public TokenSource {
 public:
  JoinedTokens(std::vector<std::shared_ptr<const TokenSource>> sources,
               const std::vector<int32_t>& separators)
      : sources_(std::move(sources)) {
    for (size_t i = 0; i < sources_.size(); ++i) {
      begins_.push_back(size_);
      size_ += sources_[i]->size();
      const bool last = i + 1 == sources_.size();
      separators_.push_back(last ? -1 : separators[i]);
      if (separators_.back() >= 0) ++size_;
    }
    path_ = absl::StrCat(sources_[0]->path(), "\" and ", sources_.size() - 1,
                         " more, the last of them \"", sources_.back()->path());
  }

  const std::string& path() const override { return path_; }
  int64_t size() const override { return size_; }

  absl::Status Read(int64_t begin, int64_t count, int64_t vocabulary,
                    int32_t* out) const override {
    CASTOR_CHECK(begin >= 0 && count >= 0 && begin <= size_ - count);
    while (count > 0) {
      const size_t i = PlaceOf(begins_, begin);
      const TokenSource& source = *sources_[i];
      const int64_t at = begin - begins_[i];
      int64_t taken = std::min(count, source.size() - at);
      if (taken > 0) {
        CASTOR_RETURN_IF_ERROR(source.Read(at, taken, vocabulary, out));
      } else {
        taken = 1;
        *out = separators_[i];
      }
      out += taken;
      begin += taken;
      count -= taken;
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<std::shared_ptr<const TokenSource>> sources_;
  std::vector<int64_t> begins_;
  std::vector<int32_t> separators_;
  int64_t size_ = 0;
  std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSet>> JoinData(
    std::vector<WeightedData> members, bool shuffle, uint64_t seed) {
  CASTOR_CHECK(!members.empty());
  std::vector<JoinedData::Member> joined;
  double all = 0;
  for (WeightedData& member : members) {
    const double drawn =
        member.weight * static_cast<double>(member.data->num_samples());
    all += drawn;
    if (!(all < 0x1p62)) {
      return absl::InvalidArgumentError(
          "the weights make an epoch of more samples than can be counted");
    }
    joined.push_back(
        {std::move(member.data), std::max<int64_t>(1, std::llround(drawn))});
  }
  if (joined.size() == 1 && joined[0].drawn == joined[0].data->num_samples()) {
    return std::move(joined[0].data);
  }
  return std::make_unique<JoinedData>(std::move(joined), shuffle, seed);
}

std::shared_ptr<const TokenSource> JoinTokens(
    std::vector<std::shared_ptr<const TokenSource>> sources,
    const std::vector<int32_t>& separators) {
  CASTOR_CHECK(!sources.empty() && sources.size() == separators.size());
  if (sources.size() == 1) return std::move(sources[0]);
  return std::make_shared<JoinedTokens>(std::move(sources), separators);
}

}  // namespace castor
