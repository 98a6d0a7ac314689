#include "cli/live/tensorboard_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/host_name.h"
#include "base/status_macros.h"

namespace castor::cli {
namespace {

constexpr char kPrefix[] = "events.out.tfevents.";
constexpr size_t kPrefixBytes = sizeof(kPrefix) - 1;

constexpr std::array<uint32_t, 256> CrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
    }
    table[i] = crc;
  }
  return table;
}

template <typename T>
void AppendLittleEndian(T value, std::string* to) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    to->push_back(static_cast<char>(value >> (8 * i)));
  }
}

// Protocol-buffer encoding.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void AppendVarint(uint64_t value, std::string* to) {
  for (; value >= 0x80; value >>= 7) {
    to->push_back(static_cast<char>(value | 0x80));
  }
  to->push_back(static_cast<char>(value));
}
void AppendTag(int field, WireType type, std::string* to) {
  AppendVarint(static_cast<uint64_t>(field) << 3 | type, to);
}
void AppendBytes(int field, absl::string_view bytes, std::string* to) {
  AppendTag(field, kBytes, to);
  AppendVarint(bytes.size(), to);
  absl::StrAppend(to, bytes);
}

// The fields that are used, by their numbers.
// Event: double wall_time, int64 step, string file_version, Summary summary,
// SessionLog session_log.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5,
              kSessionLog = 7;
// Summary: repeated Value value; Value: string tag, float simple_value.
constexpr int kValue = 1, kTag = 1, kSimpleValue = 2;
// SessionLog: enum status, of which START is 1.
constexpr int kStatus = 1, kStart = 1;

std::string Event(double wall_time, int64_t step) {
  std::string event;
  AppendTag(kWallTime, kFixed64, &event);
  AppendLittleEndian(std::bit_cast<uint64_t>(wall_time), &event);
  if (step != 0) {
    AppendTag(kStep, kVarint, &event);
    AppendVarint(static_cast<uint64_t>(step), &event);
  }
  return event;
}

double SecondsSince1970() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The reader takes files in the order of their names, which begin with a time
// in seconds: now, but later than all that are there.
int64_t TimeOfName(const std::string& directory) {
  int64_t time = static_cast<int64_t>(SecondsSince1970());
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int64_t there = 0;
    if (name.rfind(kPrefix, 0) == 0 &&
        absl::SimpleAtoi(name.substr(kPrefixBytes, 10), &there)) {
      time = std::max(time, there + 1);
    }
  }
  return time;
}

std::string CleanHostName() {
  std::string clean = HostName();
  if (clean.empty()) return "host";
  for (char& c : clean) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-') {
      c = '_';
    }
  }
  return clean;
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = CrcTable();
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return ~crc;
}

absl::StatusOr<std::unique_ptr<TensorBoardFile>> TensorBoardFile::Create(
    const std::string& directory, int64_t step) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(directory, error);
  std::error_code unknown;
  if (!std::filesystem::is_directory(directory, unknown)) {
    if (!error) error = unknown;
    return absl::InvalidArgumentError(
        absl::StrCat(directory, " is no directory and cannot be made one",
                     error ? absl::StrCat(": ", error.message()) : ""));
  }
  const int64_t time = TimeOfName(directory);
  for (int attempt = 0; attempt < 100; ++attempt) {
    // Ten digits, so that names and times have one order.
    const std::string path =
        absl::StrFormat("%s/%s%010d.%s.%d.%d", directory, kPrefix, time,
                        CleanHostName(), getpid(), attempt);
    const int fd = open(
        path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) {
      return absl::PermissionDeniedError(
          absl::StrCat(path, " cannot be written: ", std::strerror(errno)));
    }
    std::unique_ptr<TensorBoardFile> file(
        new TensorBoardFile(path, fd, made ? directory : ""));
    std::string first = Event(SecondsSince1970(), 0);
    AppendBytes(kFileVersion, "brain.Event:2", &first);
    CASTOR_RETURN_IF_ERROR(file->Write(first));
    if (step > 0) {
      std::string log;
      AppendTag(kStatus, kVarint, &log);
      AppendVarint(kStart, &log);
      std::string start = Event(SecondsSince1970(), step + 1);
      AppendBytes(kSessionLog, log, &start);
      CASTOR_RETURN_IF_ERROR(file->Write(start));
    }
    return file;
  }
  return absl::PermissionDeniedError(
      absl::StrCat("no free name for a file in ", directory));
}

TensorBoardFile::~TensorBoardFile() {
  close(fd_);
  if (used_) return;
  unlink(path_.c_str());
  if (!made_.empty()) rmdir(made_.c_str());
}

absl::Status TensorBoardFile::Append(double wall_time, int64_t step,
                                     absl::Span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    AppendBytes(kTag, scalar.tag, &value);
    AppendTag(kSimpleValue, kFixed32, &value);
    AppendLittleEndian(
        std::bit_cast<uint32_t>(static_cast<float>(scalar.value)), &value);
    AppendBytes(kValue, value, &summary);
  }
  std::string event = Event(wall_time, step);
  AppendBytes(kSummary, summary, &event);
  used_ = true;
  return Write(event);
}

absl::Status TensorBoardFile::Write(const std::string& event) {
  if (!status_.ok()) return status_;
  const auto masked = [](absl::string_view bytes) {
    return std::rotr(Crc32c(bytes), 15) + 0xa282ead8u;
  };
  std::string record;
  AppendLittleEndian(uint64_t{event.size()}, &record);
  AppendLittleEndian(masked(record), &record);
  absl::StrAppend(&record, event);
  AppendLittleEndian(masked(event), &record);
  for (absl::string_view left = record; !left.empty();) {
    const ssize_t written = write(fd_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      status_ = absl::UnavailableError(
          absl::StrCat(path_, " cannot be written: ", std::strerror(errno)));
      return status_;
    }
    left.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace castor::cli
