// Machines that are not here, as data: what a plan for one must know of it.
//
// machines.json has those that the program knows; a user's file of the same
// form adds rows, or replaces rows of the same name.
#ifndef CASTOR_DEVICE_MACHINES_MACHINES_H_
#define CASTOR_DEVICE_MACHINES_MACHINES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/machines/rate_by_size.h"

namespace castor {

// The shares, in (0, 1], of a machine's peaks that work of a kind reaches.
struct Efficiency {
  double product = 1;
  double attention = 1;
  double elements = 1;
  double update = 1;  // on the device
  double copy = 1;    // over the bus
  double host = 1;    // of updates on the host
  std::string source = {};
};

// Rates are peaks, in units a second.
struct GpuSpec {
  std::string key;             // the short name, "4090"
  std::string name;            // as CUDA says it
  int compute_capability = 0;  // 89 for 8.9
  int64_t memory_bytes = 0;    // by its data sheet
  int64_t reported_bytes = 0;  // that CUDA reports as the total
  double bytes_per_s = 0;      // of its memory
  // The rates of matrix products whose operands are of the type, with sums in
  // fp32; 0: the GPU has no such products.
  double fp32_flops_per_s = 0;
  double fp16_flops_per_s = 0;
  double bf16_flops_per_s = 0;
  double h2d_bytes_per_s = 0;
  double d2h_bytes_per_s = 0;
  // That it receives from other GPUs of its machine.
  double link_bytes_per_s = 0;
  Efficiency efficiency;
  std::string source;
};

// The rates that a host reached as the device that it emulates, with all its
// processors, in operators whose operands are of one type. 0: not measured.
struct TypeRates {
  double flops_per_s = 0;  // of large products
  RateBySize products;     // flops a second, by a product's flops
  double attention_flops_per_s = 0;
};

struct HostSpec {
  std::string key;
  std::string name;
  double bytes_per_s = 0;          // of its memory
  double network_bytes_per_s = 0;  // that the machine receives from others
  // That an update on the host reads and writes; 0: not measured.
  double update_bytes_per_s = 0;
  // The rates from here on are those of the device that the host emulates.
  double h2d_bytes_per_s = 0;
  double d2h_bytes_per_s = 0;
  RateBySize arrays;  // bytes that are read and written a second, by the bytes
  TypeRates fp32, fp16, bf16;
  std::string source;

  // Returns whether it was measured as such a device.
  bool emulates() const { return fp32.flops_per_s > 0; }
};

class Machines {
 public:
  // Those of machines.json.
  static const Machines& Known();

  // Reads `text` of the form of machines.json, of which every part may be
  // missing, over what is here. InvalidArgument: it is of another form.
  // `source` names the text.
  absl::Status Add(absl::string_view text, absl::string_view source);

  // InvalidArgument: there is none of that short name, whose case and hyphens
  // do not matter; the message has the nearest, and all.
  absl::StatusOr<GpuSpec> Gpu(absl::string_view key) const;
  absl::StatusOr<HostSpec> Host(absl::string_view key) const;
  // The GPU that CUDA calls so; null: it is not known.
  const GpuSpec* GpuNamed(absl::string_view name) const;

  const std::vector<GpuSpec>& gpus() const { return gpus_; }
  const std::vector<HostSpec>& hosts() const { return hosts_; }

 private:
  std::vector<GpuSpec> gpus_;
  std::vector<HostSpec> hosts_;
  Efficiency efficiency_;
};

// Where nothing else is said of a host.
inline constexpr char kUsualHost[] = "desktop";
// A GPU of which nothing is known counts as this one.
inline constexpr char kUsualGpu[] = "a100-40";

}  // namespace castor

#endif  // CASTOR_DEVICE_MACHINES_MACHINES_H_
