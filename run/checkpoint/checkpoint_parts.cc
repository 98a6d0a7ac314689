#include "run/checkpoint/checkpoint_parts.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "run/checkpoint/checkpoint_writer.h"

namespace castor {
namespace {

using Json = nlohmann::json;

constexpr char kPartFormat[] = "castor-part";
constexpr char kMarkerFormat[] = "castor-marker";
constexpr int64_t kMaxWorldSize = 1 << 20;

absl::StatusOr<Json> ParseObject(absl::string_view text, const char* format) {
  CASTOR_ASSIGN_OR_RETURN(Json json, ParseStrictJson(text));
  if (!json.is_object() || !json.contains("format") ||
      json["format"] != format) {
    return absl::InvalidArgumentError(
        absl::StrCat("its metadata lacks the format \"", format, "\""));
  }
  return json;
}

absl::Status Lacks(const char* key) {
  return absl::InvalidArgumentError(
      absl::StrCat("its metadata has no right \"", key, "\""));
}

absl::StatusOr<int64_t> IntegerOf(const Json& json, const char* key,
                                  int64_t least, int64_t most) {
  const auto found = json.find(key);
  // An unsigned number beyond int64_t is in no range here.
  if (found == json.end() || !found->is_number_integer() ||
      (found->is_number_unsigned() &&
       found->get<uint64_t>() > static_cast<uint64_t>(most)) ||
      found->get<int64_t>() < least || found->get<int64_t>() > most) {
    return Lacks(key);
  }
  return found->get<int64_t>();
}

absl::StatusOr<std::string> TextOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) return Lacks(key);
  return found->get<std::string>();
}

absl::StatusOr<std::string> SaveIdOf(const Json& json) {
  CASTOR_ASSIGN_OR_RETURN(std::string id, TextOf(json, "save"));
  if (id.empty() || id.size() > 64) return Lacks("save");
  return id;
}

}  // namespace

std::string PartName(int rank, int world_size) {
  return absl::StrCat("rank-", rank, "-of-", world_size, ".part");
}

std::string NewSaveId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(&id, absl::StrFormat("%08x", random()));
  }
  return id;
}

std::string FormatPartIdentity(const PartIdentity& identity) {
  return Json{{"format", kPartFormat},
              {"save", identity.save_id},
              {"rank", identity.rank},
              {"world_size", identity.world_size}}
      .dump();
}

absl::StatusOr<PartIdentity> ParsePartIdentity(absl::string_view text) {
  CASTOR_ASSIGN_OR_RETURN(const Json json, ParseObject(text, kPartFormat));
  PartIdentity identity;
  CASTOR_ASSIGN_OR_RETURN(identity.save_id, SaveIdOf(json));
  CASTOR_ASSIGN_OR_RETURN(const int64_t world_size,
                          IntegerOf(json, "world_size", 1, kMaxWorldSize));
  CASTOR_ASSIGN_OR_RETURN(const int64_t rank,
                          IntegerOf(json, "rank", 0, world_size - 1));
  identity.world_size = static_cast<int>(world_size);
  identity.rank = static_cast<int>(rank);
  return identity;
}

std::string FormatMarker(const CheckpointMarker& marker) {
  Json parts = Json::array();
  const int world_size = static_cast<int>(marker.parts.size());
  for (int rank = 0; rank < world_size; ++rank) {
    const CheckpointMarker::Part& part = marker.parts[rank];
    parts.push_back({{"name", PartName(rank, world_size)},
                     {"bytes", part.size_bytes},
                     {"seal", absl::StrFormat("%016x", part.seal)}});
  }
  return Json{{"format", kMarkerFormat},
              {"save", marker.save_id},
              {"parts", std::move(parts)},
              {"metadata", Json::parse(marker.metadata)}}
      .dump();
}

absl::StatusOr<CheckpointMarker> ParseMarker(absl::string_view text) {
  CASTOR_ASSIGN_OR_RETURN(const Json json, ParseObject(text, kMarkerFormat));
  CheckpointMarker marker;
  CASTOR_ASSIGN_OR_RETURN(marker.save_id, SaveIdOf(json));
  const auto parts = json.find("parts");
  if (parts == json.end() || !parts->is_array() || parts->empty() ||
      static_cast<int64_t>(parts->size()) > kMaxWorldSize) {
    return Lacks("parts");
  }
  const int world_size = static_cast<int>(parts->size());
  for (int rank = 0; rank < world_size; ++rank) {
    const Json& part = (*parts)[rank];
    if (!part.is_object()) return Lacks("parts");
    CASTOR_ASSIGN_OR_RETURN(const std::string name, TextOf(part, "name"));
    // No other name is accepted: this file must not say what is opened.
    if (name != PartName(rank, world_size)) {
      return absl::InvalidArgumentError(
          absl::StrCat("it names ", QuotedForMessage(name), " as the part ",
                       PartName(rank, world_size)));
    }
    CheckpointMarker::Part read;
    CASTOR_ASSIGN_OR_RETURN(
        read.size_bytes,
        IntegerOf(part, "bytes", 0, std::numeric_limits<int64_t>::max()));
    CASTOR_ASSIGN_OR_RETURN(const std::string seal, TextOf(part, "seal"));
    if (seal.size() != 16 || !absl::SimpleHexAtoi(seal, &read.seal)) {
      return Lacks("seal");
    }
    marker.parts.push_back(read);
  }
  const auto metadata = json.find("metadata");
  if (metadata == json.end()) return Lacks("metadata");
  marker.metadata = metadata->dump();
  return marker;
}

absl::StatusOr<std::unique_ptr<CheckpointFile>> OpenPart(
    const std::string& directory, const PartIdentity& identity) {
  const std::string path = absl::StrCat(
      directory, "/", PartName(identity.rank, identity.world_size));
  auto opened = CheckpointFile::Open(path);
  if (absl::IsNotFound(opened.status())) {
    return absl::DataLossError(
        absl::StrCat(path, " is missing. Resume from an earlier checkpoint."));
  }
  CASTOR_RETURN_IF_ERROR(opened.status());
  const CheckpointFile& part = **opened;
  const auto is = ParsePartIdentity(part.metadata());
  if (!is.ok()) return part.Damaged(is.status().message());
  if (is->save_id != identity.save_id) {
    return part.Damaged(absl::StrCat("it is a part of another save, ",
                                     QuotedForMessage(is->save_id), ", not of ",
                                     QuotedForMessage(identity.save_id)));
  }
  if (*is != identity) {
    return part.Damaged(absl::StrCat("it is the part of rank ", is->rank,
                                     " of ", is->world_size));
  }
  return opened;
}

absl::Status WriteMarker(const std::string& directory,
                         const std::string& save_id, int world_size,
                         absl::string_view metadata_json) {
  CheckpointMarker marker = {
      .save_id = save_id, .parts = {}, .metadata = std::string(metadata_json)};
  for (int rank = 0; rank < world_size; ++rank) {
    CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointFile> part,
                            OpenPart(directory, {save_id, rank, world_size}));
    marker.parts.push_back({part->size_bytes(), part->seal()});
  }
  CASTOR_ASSIGN_OR_RETURN(
      const std::unique_ptr<CheckpointWriter> writer,
      CheckpointWriter::Create(absl::StrCat(directory, "/", kMarkerName)));
  return writer->Commit(FormatMarker(marker));
}

}  // namespace castor
