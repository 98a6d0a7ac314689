#include "text/data/stream_bookmark.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"

namespace castor {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMost = int64_t{1} << 60;

// Reads numbers, and knows whether all of them were ones.
class Numbers {
 public:
  int64_t At(const Json& object, const char* key, int64_t least = 0) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (!object.is_object() || found == object.end()) return Fail();
    return Of(*found, least);
  }
  int64_t Of(const Json& value, int64_t least = 0) {
    if (!value.is_number_integer()) return Fail();
    const auto number = value.get<int64_t>();
    return number >= least && number <= kMost ? number : Fail();
  }
  bool ok() const { return ok_; }

 private:
  int64_t Fail() {
    ok_ = false;
    return 0;
  }
  bool ok_ = true;
};

const Json* ListAt(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? &*found : nullptr;
}

}  // namespace

std::string FormatBookmark(const StreamBookmark& bookmark) {
  Json json = {{"position", bookmark.position}, {"window", bookmark.window}};
  for (const StreamBookmark::Source& source : bookmark.sources) {
    const LabelCount& labels = source.counts.labels;
    const SampleLengths& lengths = source.counts.lengths;
    Json files = Json::array();
    for (const SourceStamp& file : source.files) {
      files.push_back(Json::array({file.size_bytes, file.modified_ns}));
    }
    json["sources"].push_back({{"pass", source.place.pass},
                               {"file", source.place.file},
                               {"offset", source.place.offset},
                               {"line", source.place.line},
                               {"skip", source.place.skip},
                               {"credit", source.credit},
                               {"samples", lengths.samples},
                               {"tokens", lengths.tokens},
                               {"longest", lengths.longest},
                               {"cut", lengths.cut},
                               {"labels", labels.labels},
                               {"unlabelled", labels.unlabelled},
                               {"files", std::move(files)}});
  }
  return json.dump();
}

absl::StatusOr<StreamBookmark> ParseBookmark(absl::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError(
      "has a place in a stream of data that makes no sense");
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  Numbers numbers;
  StreamBookmark bookmark = {.position = numbers.At(json, "position"),
                             .window = numbers.At(json, "window")};
  const Json* const sources = ListAt(json, "sources");
  if (sources == nullptr) return wrong;
  for (const Json& of : *sources) {
    const int64_t samples = numbers.At(of, "samples");
    StreamBookmark::Source source = {
        .place = {.pass = numbers.At(of, "pass"),
                  .file = numbers.At(of, "file"),
                  .offset = numbers.At(of, "offset"),
                  .line = numbers.At(of, "line"),
                  .skip = numbers.At(of, "skip")},
        .credit = numbers.At(of, "credit", -kMost),
        .counts = {.labels = {.samples = samples,
                              .unlabelled = numbers.At(of, "unlabelled"),
                              .labels = numbers.At(of, "labels")},
                   .lengths = {.samples = samples,
                               .tokens = numbers.At(of, "tokens"),
                               .longest = numbers.At(of, "longest"),
                               .cut = numbers.At(of, "cut")}}};
    const Json* const files = ListAt(of, "files");
    if (files == nullptr) return wrong;
    for (const Json& file : *files) {
      if (!file.is_array() || file.size() != 2) return wrong;
      // A file's time may be before 1970, or far in the future.
      source.files.push_back({.size_bytes = numbers.Of(file[0]),
                              .modified_ns = file[1].is_number_integer()
                                                 ? file[1].get<int64_t>()
                                                 : 0});
    }
    bookmark.sources.push_back(std::move(source));
  }
  if (!numbers.ok()) return wrong;
  return bookmark;
}

}  // namespace castor
