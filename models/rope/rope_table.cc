#include "models/rope/rope_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "models/rope/sin_cos.h"

namespace castor::models {
std::vector<float> RopeTableValues(const Rope& rope, int64_t begin,
                                   int64_t end) {
  const std::vector<float> frequencies = rope.InverseFrequencies(end);
  const float factor = rope.attention_factor();
  const int64_t pairs = static_cast<int64_t>(frequencies.size());
  const int64_t size = (end - begin) * pairs;
  std::vector<float> values(2 * size);
  float* cos = values.data();
  float* sin = values.data() + size;
  for (int64_t t = begin; t < end; ++t) {
    for (const float frequency : frequencies) {
      SinCos(static_cast<float>(t) * frequency, sin, cos);
      *sin++ *= factor;
      *cos++ *= factor;
    }
  }
  return values;
}

absl::StatusOr<ops::RotaryTable> RopeTable::operator()(Engine& engine,
                                                       int64_t begin,
                                                       int64_t end,
                                                       absl::string_view site) {
  if (begin < 0 || end <= begin || end > kMostRopePositions) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", site, "\": no table of positions ", begin, " to ",
                     end, "; give at least one below ", kMostRopePositions));
  }
  const auto values = [this, begin, end] {
    if (values_ == nullptr || begin_ != begin || end_ != end) {
      values_ = std::make_shared<const std::vector<float>>(
          RopeTableValues(rope_, begin, end));
      begin_ = begin;
      end_ = end;
    }
    return values_;
  };
  const int64_t pairs = rope_.rotary_channels() / 2;
  return ops::UploadRotaryTable(
      engine, end - begin, pairs,
      HostData::Made(2 * (end - begin) * pairs, values), site);
}

}  // namespace castor::models
