#include "device/comm/exchange_header.h"

#include <algorithm>
#include <cstring>

#include "base/printable.h"

namespace castor {
namespace {

constexpr uint32_t kMagic = 0x43535231;  // the protocol's version
constexpr uint32_t kNoticeMagic = 0x43534e31;

ExchangeHeader EmptyHeader() {
  ExchangeHeader header;
  std::memset(&header, 0, sizeof(header));  // padding crosses the network, too
  return header;
}

}  // namespace

ExchangeHeader HeaderOf(const CollectiveId& id, int64_t payload_bytes,
                        bool on_gpu) {
  ExchangeHeader header = EmptyHeader();
  header.magic = kMagic;
  header.kind = static_cast<uint8_t>(id.kind);
  header.type = static_cast<uint8_t>(id.type);
  header.op = static_cast<uint8_t>(id.op);
  header.key_bytes = static_cast<uint8_t>(id.key.size());
  header.root = id.root;
  header.sequence = id.sequence;
  header.part_bytes = id.part_bytes;
  header.payload_bytes = payload_bytes;
  header.on_gpu = on_gpu;
  std::memcpy(header.key, id.key.data(), id.key.size());
  return header;
}

std::optional<CollectiveId> CollectiveOf(const ExchangeHeader& header) {
  if (header.magic != kMagic || header.key_bytes > kMaxKeyBytes) {
    return std::nullopt;
  }
  CollectiveId id;
  id.kind = static_cast<CollectiveKind>(header.kind);
  id.type = static_cast<ElementType>(header.type);
  id.op = static_cast<ReduceOp>(header.op);
  id.root = header.root;
  id.sequence = header.sequence;
  id.part_bytes = header.part_bytes;
  id.key.assign(header.key, header.key_bytes);
  return id;
}

ExchangeHeader NoticeOf(absl::string_view hung, int speaker) {
  ExchangeHeader notice = EmptyHeader();
  notice.magic = kNoticeMagic;
  notice.root = speaker;
  hung = hung.substr(0, kMaxKeyBytes);
  notice.key_bytes = static_cast<uint8_t>(hung.size());
  std::memcpy(notice.key, hung.data(), hung.size());
  return notice;
}

bool IsNotice(const ExchangeHeader& header) {
  return header.magic == kNoticeMagic;
}

std::string HungOf(const ExchangeHeader& notice) {
  return Printable(absl::string_view(
      notice.key, std::min<size_t>(notice.key_bytes, kMaxKeyBytes)));
}

}  // namespace castor
