#include "runtime/weights/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/dtype.h"
#include "base/enough_memory.h"
#include "base/foreign_content.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "runtime/weights/foreign_model.h"
#include "runtime/weights/weight_names.h"

namespace castor {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors are little-endian and read as they lie");

using Json = nlohmann::json;

constexpr int64_t kMaxHeaderBytes = 100'000'000;
constexpr int64_t kMaxIndexBytes = 100'000'000;
constexpr absl::string_view kMetadataKey = "__metadata__";
// {name: {"shape": [..]}} is the deepest that is needed.
constexpr JsonLimits kHeaderLimits = {.max_depth = 3, .max_values = 10'000'000};

struct DtypeInfo {
  absl::string_view name;
  int64_t size;
};

constexpr DtypeInfo kDtypes[] = {
    {"BOOL", 1},    {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
    {"F8_E8M0", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},     {"BF16", 2},
    {"I32", 4},     {"U32", 4}, {"F32", 4}, {"C64", 8},     {"F64", 8},
    {"I64", 8},     {"U64", 8},
};
static_assert(std::size(kDtypes) ==
              static_cast<size_t>(SafetensorsDtype::kU64) + 1);

// False when `json` is not an integer in [0, 2^63).
bool GetSize(const Json& json, int64_t* out) {
  if (!json.is_number_unsigned()) return false;
  const uint64_t value = json.get<uint64_t>();
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return false;
  }
  *out = static_cast<int64_t>(value);
  return true;
}

// The value of an object's only-string member, or null.
const std::string* GetString(const Json& object, const char* key) {
  const auto member = object.find(key);
  if (member == object.end()) return nullptr;
  return member->get_ptr<const std::string*>();
}

// Numbers of 16 bits at any address, as fp32.
template <class T>
void Widen(const uint8_t* from, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value.bits, from + sizeof(T) * i, sizeof(T));
    out[i] = static_cast<float>(value);
  }
}

}  // namespace

absl::string_view SafetensorsDtypeName(SafetensorsDtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].name;
}

int64_t SizeOf(SafetensorsDtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].size;
}

absl::Status SafetensorsFile::Refuse(absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(path_, " is not a valid safetensors file: ", what));
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(
    std::string path) {
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile(std::move(path)));
  file->fd_ = open(file->path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->fd_ < 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot open ", file->path_));
  }
  struct stat info;
  if (fstat(file->fd_, &info) != 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot stat ", file->path_));
  }
  if (!S_ISREG(info.st_mode)) return file->Refuse("it is not a regular file");
  file->file_bytes_ = info.st_size;
  CASTOR_RETURN_IF_ERROR(file->ReadHeader());
  return file;
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Parse(
    absl::Span<const uint8_t> bytes, std::string name) {
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile(std::move(name)));
  file->memory_ = bytes;
  file->file_bytes_ = static_cast<int64_t>(bytes.size());
  CASTOR_RETURN_IF_ERROR(file->ReadHeader());
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status SafetensorsFile::Read(int64_t begin,
                                   absl::Span<uint8_t> out) const {
  if (fd_ < 0) {
    std::memcpy(out.data(), memory_.data() + begin, out.size());
    return absl::OkStatus();
  }
  while (!out.empty()) {
    const ssize_t n = pread(fd_, out.data(), out.size(), begin);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return absl::DataLossError(absl::StrCat(
          path_, " cannot be read any more: ", std::strerror(errno)));
    }
    if (n == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, " has shrunk since it was opened, from ",
                       file_bytes_, " bytes"));
    }
    begin += n;
    out.remove_prefix(n);
  }
  return absl::OkStatus();
}

absl::Status SafetensorsFile::ReadHeader() {
  if (file_bytes_ < 8) {
    return Refuse(absl::StrCat("it has only ", file_bytes_, " bytes"));
  }
  std::string beginning(std::min(file_bytes_, kForeignContentBytes), '\0');
  CASTOR_RETURN_IF_ERROR(Read(
      0, {reinterpret_cast<uint8_t*>(beginning.data()), beginning.size()}));
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, beginning.data(), sizeof(header_bytes));
  const bool fits = header_bytes <= static_cast<uint64_t>(kMaxHeaderBytes) &&
                    header_bytes <= static_cast<uint64_t>(file_bytes_ - 8);
  if (!fits || (beginning.size() > 8 && beginning[8] != '{')) {
    if (const std::string other = ForeignFile(beginning); !other.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path_, " ", other));
    }
  }
  if (header_bytes > static_cast<uint64_t>(kMaxHeaderBytes)) {
    return Refuse(absl::StrCat("a header of ", header_bytes, " bytes; at most ",
                               kMaxHeaderBytes, " are allowed"));
  }
  if (!fits) {
    return Refuse(absl::StrCat("a header of ", header_bytes,
                               " bytes in a file of ", file_bytes_));
  }
  return IfMemoryAllows(
      absl::StrCat("the header of ", path_), [&]() -> absl::Status {
        std::string text(header_bytes, '\0');
        CASTOR_RETURN_IF_ERROR(
            Read(8, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
        return ParseHeader(text);
      });
}

absl::Status SafetensorsFile::ParseHeader(absl::string_view text) {
  if (text.empty() || text[0] != '{') {
    return Refuse("its header does not begin with \"{\"");
  }
  auto parsed = ParseStrictJson(text, kHeaderLimits);
  if (!parsed.ok()) {
    return Refuse(absl::StrCat("its header: ", parsed.status().message()));
  }
  const int64_t data_begin = 8 + static_cast<int64_t>(text.size());
  const int64_t data_bytes = file_bytes_ - data_begin;

  for (const auto& [name, value] : parsed->items()) {
    const std::string quoted = QuotedForMessage(name);
    if (!value.is_object()) {
      return Refuse(absl::StrCat(quoted, " is not an object"));
    }
    if (name == kMetadataKey) {
      for (const auto& [key, entry] : value.items()) {
        const auto* string = entry.get_ptr<const std::string*>();
        if (string == nullptr) {
          return Refuse(absl::StrCat("the metadata ", QuotedForMessage(key),
                                     " is not a string"));
        }
        metadata_.emplace(key, *string);
      }
      continue;
    }
    SafetensorsTensor tensor;
    tensor.name = name;
    const std::string* dtype = GetString(value, "dtype");
    const auto shape = value.find("shape");
    const auto offsets = value.find("data_offsets");
    if (dtype == nullptr || shape == value.end() || !shape->is_array() ||
        offsets == value.end() || !offsets->is_array() ||
        offsets->size() != 2 || value.size() != 3) {
      return Refuse(absl::StrCat("tensor ", quoted,
                                 ": want a string dtype, an array shape, an "
                                 "array of two data_offsets, nothing else"));
    }
    const auto* known = std::find_if(
        std::begin(kDtypes), std::end(kDtypes),
        [&](const DtypeInfo& info) { return info.name == *dtype; });
    if (known == std::end(kDtypes)) {
      return Refuse(absl::StrCat("tensor ", quoted, ": unknown dtype ",
                                 QuotedForMessage(*dtype)));
    }
    tensor.dtype = static_cast<SafetensorsDtype>(known - kDtypes);

    int64_t elements = 1;
    for (const Json& dimension : *shape) {
      int64_t n = 0;
      if (!GetSize(dimension, &n) ||
          __builtin_mul_overflow(elements, n, &elements)) {
        return Refuse(absl::StrCat("tensor ", quoted, ": its shape is not a ",
                                   "list of sizes, or overflows"));
      }
      tensor.shape.push_back(n);
    }
    tensor.elements = elements;
    int64_t size = 0;
    int64_t begin = 0;
    int64_t end = 0;
    if (!GetSize((*offsets)[0], &begin) || !GetSize((*offsets)[1], &end) ||
        begin > end || end > data_bytes) {
      return Refuse(absl::StrCat("tensor ", quoted,
                                 ": data_offsets outside the ", data_bytes,
                                 " bytes of data"));
    }
    if (__builtin_mul_overflow(elements, known->size, &size) ||
        size != end - begin) {
      return Refuse(absl::StrCat("tensor ", quoted, ": ", elements,
                                 " elements of ", *dtype, " in ", end - begin,
                                 " bytes"));
    }
    tensor.begin = data_begin + begin;
    tensor.size_bytes = end - begin;
    tensors_.push_back(std::move(tensor));
  }

  std::sort(tensors_.begin(), tensors_.end(),
            [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
              return std::tie(a.begin, a.size_bytes, a.name) <
                     std::tie(b.begin, b.size_bytes, b.name);
            });
  int64_t covered = data_begin;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const SafetensorsTensor& tensor = tensors_[i];
    if (tensor.begin != covered) {
      return Refuse(absl::StrCat("tensor ", QuotedForMessage(tensor.name),
                                 " begins at byte ", tensor.begin - data_begin,
                                 " of the data, where ", covered - data_begin,
                                 " are taken by those before it"));
    }
    covered += tensor.size_bytes;
    by_name_.emplace(tensor.name, static_cast<int64_t>(i));
  }
  if (covered != file_bytes_) {
    return Refuse(absl::StrCat("tensors cover ", covered - data_begin, " of ",
                               data_bytes, " bytes of data"));
  }
  return absl::OkStatus();
}

const SafetensorsTensor* SafetensorsFile::Find(absl::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

absl::Status SafetensorsFile::ReadFloats(absl::string_view name, int64_t begin,
                                         int64_t end, float* out) const {
  const SafetensorsTensor* tensor = Find(name);
  if (tensor == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(path_, " holds no tensor ", QuotedForMessage(name)));
  }
  if (begin < 0 || begin > end || end > tensor->elements) {
    return absl::OutOfRangeError(
        absl::StrCat(path_, ": elements [", begin, ", ", end, ") of ",
                     QuotedForMessage(name), ", which has ", tensor->elements));
  }
  const int64_t count = end - begin;
  const int64_t size = SizeOf(tensor->dtype);
  // Reads narrow numbers into the end of their place: each becomes wider only
  // over those that have been read.
  const auto raw = [&](int64_t bytes) {
    return absl::MakeSpan(reinterpret_cast<uint8_t*>(out + count) - bytes,
                          bytes);
  };
  switch (tensor->dtype) {
    case SafetensorsDtype::kF32:
      return ReadBytes(*tensor, begin * size, raw(count * size));
    case SafetensorsDtype::kBF16:
      CASTOR_RETURN_IF_ERROR(
          ReadBytes(*tensor, begin * size, raw(count * size)));
      Widen<BFloat16>(raw(count * size).data(), count, out);
      return absl::OkStatus();
    case SafetensorsDtype::kF16:
      CASTOR_RETURN_IF_ERROR(
          ReadBytes(*tensor, begin * size, raw(count * size)));
      Widen<Float16>(raw(count * size).data(), count, out);
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": tensor ", QuotedForMessage(name), " is ",
                       SafetensorsDtypeName(tensor->dtype),
                       "; only F32, BF16 and F16 are read as numbers"));
  }
}

absl::Status SafetensorsFile::ReadBytes(const SafetensorsTensor& tensor,
                                        int64_t begin,
                                        absl::Span<uint8_t> out) const {
  CASTOR_CHECK(begin >= 0 &&
               begin <= tensor.size_bytes - static_cast<int64_t>(out.size()));
  return Read(tensor.begin + begin, out);
}

absl::StatusOr<std::unique_ptr<SafetensorsModel>> SafetensorsModel::Open(
    std::string directory) {
  std::unique_ptr<SafetensorsModel> model(
      new SafetensorsModel(std::move(directory)));
  const std::string single = absl::StrCat(model->directory_, "/", kWeightsName);
  const std::string index =
      absl::StrCat(model->directory_, "/", kWeightsIndexName);
  CASTOR_ASSIGN_OR_RETURN(const bool has_single,
                          FindFile(model->directory_, kWeightsName));
  if (has_single) {
    CASTOR_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(single));
    CASTOR_RETURN_IF_ERROR(model->Add(*file));
    model->files_.push_back(std::move(file));
  } else {
    CASTOR_ASSIGN_OR_RETURN(const bool has_index,
                            FindFile(model->directory_, kWeightsIndexName));
    if (!has_index) return NoWeights(model->directory_);
    CASTOR_RETURN_IF_ERROR(model->OpenIndexed(index));
  }
  std::sort(model->names_.begin(), model->names_.end());
  return model;
}

absl::Status SafetensorsModel::OpenIndexed(const std::string& index_path) {
  CASTOR_ASSIGN_OR_RETURN(const std::string text,
                          ReadSmallFile(index_path, kMaxIndexBytes));
  auto parsed = ParseStrictJson(text);
  if (!parsed.ok()) {
    const std::string other = ForeignFile(text);
    return absl::InvalidArgumentError(
        other.empty()
            ? absl::StrCat(index_path, ": ", parsed.status().message())
            : absl::StrCat(index_path, " ", other));
  }
  const auto weight_map =
      parsed->is_object() ? parsed->find("weight_map") : parsed->end();
  if (weight_map == parsed->end() || !weight_map->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(index_path, ": want an object \"weight_map\""));
  }
  std::map<std::string, SafetensorsFile*> by_file;
  for (const auto& [name, value] : weight_map->items()) {
    const auto* file_name = value.get_ptr<const std::string*>();
    // A plain name: an index must not reach outside its directory.
    if (file_name == nullptr || file_name->empty() || *file_name == "." ||
        *file_name == ".." || file_name->find('/') != std::string::npos ||
        file_name->find('\0') != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          index_path, ": tensor ", QuotedForMessage(name),
          " is mapped to something that is not a file's plain name"));
    }
    SafetensorsFile*& file = by_file[*file_name];
    if (file == nullptr) {
      const std::string path = absl::StrCat(directory_, "/", *file_name);
      CASTOR_ASSIGN_OR_RETURN(const bool has_file,
                              FindFile(directory_, *file_name));
      if (!has_file) {
        return absl::NotFoundError(
            absl::StrCat(index_path, " names ", QuotedForMessage(*file_name),
                         ", which is not there: this directory lacks a part "
                         "of its weights"));
      }
      CASTOR_ASSIGN_OR_RETURN(auto opened, SafetensorsFile::Open(path));
      file = opened.get();
      files_.push_back(std::move(opened));
      CASTOR_RETURN_IF_ERROR(Add(*file));
    }
    if (file->Find(name) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(index_path, ": tensor ", QuotedForMessage(name),
                       " is not in ", QuotedForMessage(*file_name)));
    }
  }
  if (weight_map->size() != names_.size()) {
    for (const std::string& name : names_) {
      if (!weight_map->contains(name)) {
        return absl::InvalidArgumentError(absl::StrCat(
            file_of_[name]->path(), " holds tensor ", QuotedForMessage(name),
            ", which ", index_path, " does not name"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status SafetensorsModel::Add(const SafetensorsFile& file) {
  for (const SafetensorsTensor& tensor : file.tensors()) {
    const auto [place, is_new] = file_of_.emplace(tensor.name, &file);
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", QuotedForMessage(tensor.name), " lies both in ",
          place->second->path(), " and in ", file.path()));
    }
    names_.push_back(tensor.name);
  }
  return absl::OkStatus();
}

const SafetensorsTensor* SafetensorsModel::Find(absl::string_view name) const {
  const auto found = file_of_.find(name);
  return found == file_of_.end() ? nullptr : found->second->Find(name);
}

absl::Status SafetensorsModel::ReadFloats(absl::string_view name, int64_t begin,
                                          int64_t end, float* out) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) {
    return absl::NotFoundError(
        absl::StrCat(directory_, " holds no tensor ", QuotedForMessage(name)));
  }
  return found->second->ReadFloats(name, begin, end, out);
}

const std::string& SafetensorsModel::PathOf(absl::string_view name) const {
  const auto found = file_of_.find(name);
  return found == file_of_.end() ? directory_ : found->second->path();
}

absl::StatusOr<uint64_t> SafetensorsModel::SampleChecksum() const {
  constexpr int64_t kPieces = 16, kElements = 64;
  std::vector<float> values(kElements);
  uint64_t checksum = 0;
  for (const std::string& name : names_) {
    checksum = XXH3_64bits_withSeed(name.data(), name.size(), checksum);
    const int64_t elements = Find(name)->elements;
    const int64_t stride = std::max(kElements, elements / kPieces);
    for (int64_t begin = 0; begin < elements; begin += stride) {
      const int64_t count = std::min(kElements, elements - begin);
      CASTOR_RETURN_IF_ERROR(
          ReadFloats(name, begin, begin + count, values.data()));
      checksum =
          XXH3_64bits_withSeed(values.data(), count * sizeof(float), checksum);
    }
  }
  return checksum;
}

}  // namespace castor
