// Messages that ranks exchange ahead of a collective's data: a header names the
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

// The struct crosses the network as it is, between machines of one
// architecture.
struct ExchangeHeader {
  uint32_t magic;
  uint8_t kind, type, op, key_bytes;
  int32_t root;     // of a notice: the rank that reports for all
  uint32_t on_gpu;  // true if the payload is in a GPU's memory
  int64_t sequence;
  int64_t part_bytes;
  int64_t payload_bytes;       // for the receiver of this header
  char key[kMaxKeyBytes + 1];  // of a notice: the ranks that hang
  char padding[8];
};
static_assert(sizeof(ExchangeHeader) == 128);

ExchangeHeader HeaderOf(const CollectiveId& id, int64_t payload_bytes,
                        bool on_gpu);

// Returns the collective that a header names; nullopt if it is no header of
// this protocol's version.
std::optional<CollectiveId> CollectiveOf(const ExchangeHeader& header);

// Makes a notice. `hung`, "rank 0, rank 2", is cut to kMaxKeyBytes.
ExchangeHeader NoticeOf(absl::string_view hung, int speaker);

bool IsNotice(const ExchangeHeader& header);

// Returns the hanging ranks that a notice names, with only printable
// characters, since it comes from the network.
std::string HungOf(const ExchangeHeader& notice);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_EXCHANGE_HEADER_H_
