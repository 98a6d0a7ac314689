#include "cli/live/tensorboard_decoder.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace castor::testing {
namespace {

// Bit by bit, from the polynomial x^32 + x^28 + x^27 + ... + 1 (0x1edc6f41),
// most significant bit first over reflected bytes.
uint32_t SlowCrc32c(absl::string_view bytes) {
  uint32_t remainder = 0xffffffff;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t in = static_cast<unsigned char>(c) >> bit & 1;
      const bool carry = (remainder >> 31 ^ in) != 0;
      remainder <<= 1;
      if (carry) remainder ^= 0x1edc6f41;
    }
  }
  uint32_t reflected = 0;
  for (int bit = 0; bit < 32; ++bit) {
    reflected |= (remainder >> bit & 1) << (31 - bit);
  }
  return reflected ^ 0xffffffff;
}

bool SumHolds(absl::string_view bytes, uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8;
  return SlowCrc32c(bytes) == (rotated << 15 | rotated >> 17);
}

// One message's fields, one after another.
class Fields {
 public:
  explicit Fields(absl::string_view bytes) : left_(bytes) {}

  // The next field; false at the end, or where bad() says so.
  bool Next() {
    if (left_.empty() || bad_) return false;
    const uint64_t key = Varint();
    number = static_cast<int64_t>(key >> 3);
    value = 0;
    bytes = {};
    switch (key & 7) {
      case 0:
        value = Varint();
        break;
      case 1:
        value = Fixed(8);
        break;
      case 2:
        bytes = Take(Varint());
        break;
      case 5:
        value = Fixed(4);
        break;
      default:
        bad_ = true;
    }
    return !bad_;
  }
  bool bad() const { return bad_; }

  int64_t number = 0;
  uint64_t value = 0;       // of a number
  absl::string_view bytes;  // of a string or message

 private:
  absl::string_view Take(uint64_t count) {
    if (count > left_.size()) {
      bad_ = true;
      return {};
    }
    const absl::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  uint64_t Varint() {
    uint64_t result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const absl::string_view byte = Take(1);
      if (bad_) return 0;
      result |= uint64_t{static_cast<unsigned char>(byte[0]) & 0x7fu} << shift;
      if ((byte[0] & 0x80) == 0) return result;
    }
    bad_ = true;
    return 0;
  }
  uint64_t Fixed(size_t size) {
    const absl::string_view taken = Take(size);
    uint64_t result = 0;
    std::memcpy(&result, taken.data(), taken.size());
    return result;
  }

  absl::string_view left_;
  bool bad_ = false;
};

template <typename To>
To BitsAs(uint64_t bits) {
  To to;
  std::memcpy(&to, &bits, sizeof(to));
  return to;
}

bool DecodeSummary(absl::string_view bytes, TensorBoardEvent* event) {
  Fields summary(bytes);
  while (summary.Next()) {
    if (summary.number != 1) return false;
    std::string tag;
    Fields value(summary.bytes);
    while (value.Next()) {
      if (value.number == 1) tag = std::string(value.bytes);
      if (value.number == 2) event->scalars[tag] = BitsAs<float>(value.value);
    }
    if (value.bad() || tag.empty()) return false;
  }
  return !summary.bad();
}

bool DecodeEvent(absl::string_view bytes, TensorBoardEvent* event) {
  Fields fields(bytes);
  while (fields.Next()) {
    switch (fields.number) {
      case 1:
        event->wall_time = BitsAs<double>(fields.value);
        break;
      case 2:
        event->step = static_cast<int64_t>(fields.value);
        break;
      case 3:
        event->file_version = std::string(fields.bytes);
        break;
      case 5:
        if (!DecodeSummary(fields.bytes, event)) return false;
        break;
      case 7:
        event->session_start = fields.bytes == "\x08\x01";
        break;
      default:
        return false;
    }
  }
  return !fields.bad();
}

}  // namespace

absl::StatusOr<std::vector<TensorBoardEvent>> DecodeTensorBoard(
    absl::string_view file) {
  std::vector<TensorBoardEvent> events;
  size_t at = 0;
  const auto bad = [&](const char* what) {
    return absl::DataLossError(
        absl::StrCat(what, " in the record at byte ", at));
  };
  while (file.size() - at >= 12) {
    uint64_t length = 0;
    uint32_t length_sum = 0, sum = 0;
    std::memcpy(&length, file.data() + at, 8);
    std::memcpy(&length_sum, file.data() + at + 8, 4);
    if (!SumHolds(file.substr(at, 8), length_sum)) return bad("length's sum");
    if (file.size() - at - 12 < length + 4) break;
    std::memcpy(&sum, file.data() + at + 12 + length, 4);
    const absl::string_view bytes = file.substr(at + 12, length);
    if (!SumHolds(bytes, sum)) return bad("bytes' sum");
    events.emplace_back();
    if (!DecodeEvent(bytes, &events.back())) return bad("encoding");
    at += 16 + length;
  }
  return events;
}

}  // namespace castor::testing
