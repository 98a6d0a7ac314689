// What ranks say to each other ahead of a collective's data: a header names the
// collective that its sender is in; a notice, which comes in a header's place,
// names ranks that hang. exchange_communicator.h has the protocol.
#ifndef CASTOR_DEVICE_COMM_EXCHANGE_HEADER_H_
#define CASTOR_DEVICE_COMM_EXCHANGE_HEADER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "device/comm/collective.h"

namespace castor {

// It crosses the network as it is, between equal machines.
struct ExchangeHeader {
  uint32_t magic;
  uint8_t kind, type, op, key_bytes;
  int32_t root;     // of a notice: the rank that is to speak for all
  uint32_t on_gpu;  // where the payload is
  int64_t sequence;
  int64_t part_bytes;
  int64_t payload_bytes;       // for the one who gets this header
  char key[kMaxKeyBytes + 1];  // of a notice: the ranks that hang
  char padding[8];
};
static_assert(sizeof(ExchangeHeader) == 128);

ExchangeHeader HeaderOf(const CollectiveId& id, int64_t payload_bytes,
                        bool on_gpu);

// The collective that a header names; nullopt: it is no header of this
// protocol's version.
std::optional<CollectiveId> CollectiveOf(const ExchangeHeader& header);

// `hung`, "rank 0, rank 2", is cut to kMaxKeyBytes.
ExchangeHeader NoticeOf(absl::string_view hung, int speaker);

bool IsNotice(const ExchangeHeader& header);

// The ranks that a notice says hang; it comes from elsewhere, so that only what
// can be printed is left.
std::string HungOf(const ExchangeHeader& notice);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_EXCHANGE_HEADER_H_
