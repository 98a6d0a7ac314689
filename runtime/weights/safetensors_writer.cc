#include "runtime/weights/safetensors_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "nlohmann/json.hpp"

namespace castor {
namespace {

constexpr int64_t kMaxHeaderBytes = 100'000'000;

// -1 when the size is negative or overflows.
int64_t SizeBytes(const SafetensorsEntry& entry) {
  int64_t size = SizeOf(entry.dtype);
  bool bad = false;
  for (int64_t n : entry.shape) {
    bad |= n < 0 || __builtin_mul_overflow(size, n, &size);
  }
  return bad ? -1 : size;
}

// Writes a string as serde_json does: only what must be escaped is.
std::string JsonString(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::strict);
}

absl::StatusOr<std::string> MakeHeader(
    const std::vector<SafetensorsEntry>& entries,
    const std::map<std::string, std::string>& metadata) {
  std::string header = "{";
  try {
    if (!metadata.empty()) {
      absl::StrAppend(&header, "\"__metadata__\":{");
      for (const auto& [key, value] : metadata) {
        absl::StrAppend(&header, header.back() == '{' ? "" : ",",
                        JsonString(key), ":", JsonString(value));
      }
      absl::StrAppend(&header, "}");
    }
    int64_t offset = 0;
    for (const SafetensorsEntry& entry : entries) {
      const int64_t size = SizeBytes(entry);
      int64_t end = 0;
      if (size < 0 || __builtin_add_overflow(offset, size, &end)) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor ", QuotedForMessage(entry.name),
                         ": its size is negative or overflows"));
      }
      absl::StrAppend(&header, header.size() == 1 ? "" : ",",
                      JsonString(entry.name), ":{\"dtype\":\"",
                      SafetensorsDtypeName(entry.dtype), "\",\"shape\":[");
      for (size_t i = 0; i < entry.shape.size(); ++i) {
        absl::StrAppend(&header, i == 0 ? "" : ",", entry.shape[i]);
      }
      absl::StrAppend(&header, "],\"data_offsets\":[", offset, ",", end, "]}");
      offset = end;
    }
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("a name or metadata is not UTF-8: ", error.what()));
  }
  absl::StrAppend(&header, "}");
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (static_cast<int64_t>(header.size()) > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a header of ", header.size(), " bytes; at most ",
                     kMaxHeaderBytes, " are allowed"));
  }
  return header;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<AtomicFile> file,
                                     std::vector<SafetensorsEntry> entries)
    : file_(std::move(file)), entries_(std::move(entries)) {
  if (!entries_.empty()) left_bytes_ = SizeBytes(entries_[0]);
  SkipComplete();
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    std::string path, std::vector<SafetensorsEntry> entries,
    const std::map<std::string, std::string>& metadata) {
  std::unordered_set<std::string> names;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.name.empty() || entry.name == "__metadata__" ||
        !names.insert(entry.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the name ", QuotedForMessage(entry.name),
                       " is empty, reserved or given twice"));
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
            });
  auto header = MakeHeader(entries, metadata);
  if (!header.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", header.status().message()));
  }
  CASTOR_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(std::move(path)));
  const uint64_t header_bytes = header->size();
  int64_t all_bytes = 8 + static_cast<int64_t>(header_bytes);
  for (const SafetensorsEntry& entry : entries) all_bytes += SizeBytes(entry);
  CASTOR_RETURN_IF_ERROR(file->Reserve(all_bytes));
  CASTOR_RETURN_IF_ERROR(file->Append(&header_bytes, 8));
  CASTOR_RETURN_IF_ERROR(
      file->Append(header->data(), static_cast<int64_t>(header->size())));
  return std::unique_ptr<SafetensorsWriter>(
      new SafetensorsWriter(std::move(file), std::move(entries)));
}

void SafetensorsWriter::SkipComplete() {
  while (left_bytes_ == 0 && current_ < entries_.size()) {
    if (++current_ < entries_.size()) {
      left_bytes_ = SizeBytes(entries_[current_]);
    }
  }
}

absl::Status SafetensorsWriter::Append(absl::string_view name,
                                       absl::Span<const uint8_t> bytes) {
  if (bytes.empty()) return absl::OkStatus();
  if (current_ == entries_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->path(), ": bytes of ", QuotedForMessage(name),
                     " after the last tensor was complete"));
  }
  const int64_t count = static_cast<int64_t>(bytes.size());
  if (entries_[current_].name != name || count > left_bytes_) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->path(), ": ", count, " bytes of ",
                     QuotedForMessage(name), " where ", left_bytes_, " of ",
                     QuotedForMessage(entries_[current_].name), " are due"));
  }
  CASTOR_RETURN_IF_ERROR(file_->Append(bytes.data(), count));
  left_bytes_ -= count;
  SkipComplete();
  return absl::OkStatus();
}

template <class T>
absl::Status SafetensorsWriter::AppendNarrowed(absl::string_view name,
                                               absl::Span<const float> values) {
  constexpr size_t kPiece = 8192;
  T piece[kPiece];
  for (size_t at = 0; at < values.size(); at += kPiece) {
    const size_t n = std::min(kPiece, values.size() - at);
    for (size_t i = 0; i < n; ++i) {
      const float value = values[at + i];
      piece[i] = T(value);
      if (std::isinf(static_cast<float>(piece[i])) && std::isfinite(value)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "tensor ", QuotedForMessage(name), " has the value ", value,
            ", which ", DTypeName(kDTypeOf<T>), " cannot hold"));
      }
    }
    CASTOR_RETURN_IF_ERROR(
        Append(name, {reinterpret_cast<const uint8_t*>(piece), n * 2}));
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::AppendFloats(absl::string_view name,
                                             absl::Span<const float> values) {
  const SafetensorsDtype dtype = current_ < entries_.size()
                                     ? entries_[current_].dtype
                                     : SafetensorsDtype::kF32;
  if (dtype == SafetensorsDtype::kF32) {
    return Append(name, {reinterpret_cast<const uint8_t*>(values.data()),
                         values.size() * 4});
  }
  if (dtype == SafetensorsDtype::kBF16) {
    return AppendNarrowed<BFloat16>(name, values);
  }
  if (dtype == SafetensorsDtype::kF16) {
    return AppendNarrowed<Float16>(name, values);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      file_->path(), ": ", QuotedForMessage(name), " is ",
      SafetensorsDtypeName(dtype), "; floats become F32, BF16 or F16 only"));
}

absl::Status SafetensorsWriter::Finish() {
  if (current_ != entries_.size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        file_->path(), ": ", left_bytes_, " bytes of ",
        QuotedForMessage(entries_[current_].name), " are still due"));
  }
  return file_->Commit();
}

}  // namespace castor
