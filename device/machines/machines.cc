#include "device/machines/machines.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/json_reader.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "device/machines/machine_texts.h"
#include "nlohmann/json.hpp"

namespace castor {
namespace {

constexpr DoubleRange kShare = {.min = 0, .max = 1, .min_open = true};
// From 1 MB/s and 1 Mflop/s on, so that no time overflows.
constexpr DoubleRange kGbps = {.min = 1e-3, .max = 1e9};
constexpr DoubleRange kTeraflops = {.min = 1e-6, .max = 1e9};
// A list of rates by size has these sizes and rates, in its units.
constexpr DoubleRange kSize = {.min = 1e-6, .max = 1e12};
constexpr DoubleRange kRate = {.min = 1e-3, .max = 1e9};
constexpr int64_t kMostBytes = int64_t{1} << 50;

void ReadGbps(JsonReader& reader, absl::string_view key, double* bytes_per_s) {
  double gbps = *bytes_per_s / 1e9;
  reader.Require(key);
  reader.Double(key, &gbps, kGbps);
  *bytes_per_s = gbps * 1e9;
}

void ReadTeraflops(JsonReader& reader, absl::string_view key,
                   double* flops_per_s) {
  double teraflops = 0;
  reader.Double(key, &teraflops, kTeraflops);
  *flops_per_s = teraflops * 1e12;
}

void ReadMemory(JsonReader& reader, absl::string_view key, int64_t* bytes) {
  reader.Bytes(key, bytes);
  if (*bytes > kMostBytes) {
    reader.Fail(key, "is more memory than any GPU has");
  }
}

void ReadEfficiency(JsonReader reader, Efficiency* efficiency) {
  reader.Double("product", &efficiency->product, kShare);
  reader.Double("attention", &efficiency->attention, kShare);
  reader.Double("elements", &efficiency->elements, kShare);
  reader.Double("update", &efficiency->update, kShare);
  reader.Double("copy", &efficiency->copy, kShare);
  reader.Double("host", &efficiency->host, kShare);
  reader.String("source", &efficiency->source);
  reader.RefuseUnknownKeys();
}

GpuSpec ReadGpu(JsonReader reader, const std::string& key,
                const Efficiency& usual) {
  GpuSpec gpu;
  gpu.key = key;
  gpu.efficiency = usual;
  reader.Require("name");
  reader.String("name", &gpu.name);
  double capability = 0;
  reader.Require("compute_capability");
  reader.Double("compute_capability", &capability, {.min = 1, .max = 99});
  gpu.compute_capability = static_cast<int>(std::lround(10 * capability));
  reader.Require("memory");
  ReadMemory(reader, "memory", &gpu.memory_bytes);
  // Without a figure, as much less as error correction takes of memory that has
  // no bits of its own for it.
  gpu.reported_bytes = gpu.memory_bytes / 16 * 15;
  ReadMemory(reader, "reported", &gpu.reported_bytes);
  ReadGbps(reader, "memory_gbps", &gpu.bytes_per_s);
  reader.Require("tflops");
  JsonReader rates = reader.Object("tflops");
  rates.Require("fp32");
  ReadTeraflops(rates, "fp32", &gpu.fp32_flops_per_s);
  ReadTeraflops(rates, "fp16", &gpu.fp16_flops_per_s);
  ReadTeraflops(rates, "bf16", &gpu.bf16_flops_per_s);
  rates.RefuseUnknownKeys();
  ReadGbps(reader, "to_device_gbps", &gpu.h2d_bytes_per_s);
  ReadGbps(reader, "from_device_gbps", &gpu.d2h_bytes_per_s);
  gpu.link_bytes_per_s = gpu.h2d_bytes_per_s;
  if (reader.Has("link_gbps")) {
    ReadGbps(reader, "link_gbps", &gpu.link_bytes_per_s);
  }
  ReadEfficiency(reader.Object("efficiency"), &gpu.efficiency);
  reader.Require("source");
  reader.String("source", &gpu.source);
  reader.RefuseUnknownKeys();
  return gpu;
}

// Two lists of equal length: sizes, in multiples of `size_unit`, and rates, in
// multiples of `rate_unit` a second.
RateBySize ReadCurve(JsonReader reader, absl::string_view sizes,
                     double size_unit, absl::string_view rates,
                     double rate_unit) {
  reader.Require(sizes);
  reader.Require(rates);
  const Json* const list = reader.Raw(sizes);
  const size_t points = list == nullptr || !list->is_array() ? 0 : list->size();
  std::vector<double> at(points);
  std::vector<double> is(points);
  reader.Doubles(sizes, absl::MakeSpan(at), kSize);
  reader.Doubles(rates, absl::MakeSpan(is), kRate);
  reader.RefuseUnknownKeys();
  if (reader.Failed(sizes) || reader.Failed(rates)) return {};
  if (std::adjacent_find(at.begin(), at.end(), std::greater_equal<>()) !=
      at.end()) {
    reader.Fail(sizes, "does not ascend");
    return {};
  }
  RateBySize curve;
  for (size_t i = 0; i < points; ++i) {
    curve.points.push_back({at[i] * size_unit, is[i] * rate_unit});
  }
  return curve;
}

TypeRates ReadTypeRates(JsonReader reader) {
  TypeRates type;
  reader.Require("tflops");
  ReadTeraflops(reader, "tflops", &type.flops_per_s);
  reader.Require("attention_tflops");
  ReadTeraflops(reader, "attention_tflops", &type.attention_flops_per_s);
  type.products =
      ReadCurve(reader.Object("products"), "mflop", 1e6, "gflops", 1e9);
  reader.RefuseUnknownKeys();
  return type;
}

void ReadEmulated(JsonReader reader, HostSpec* host) {
  ReadGbps(reader, "to_device_gbps", &host->h2d_bytes_per_s);
  ReadGbps(reader, "from_device_gbps", &host->d2h_bytes_per_s);
  host->arrays = ReadCurve(reader.Object("arrays"), "kib", 1024, "gbps", 1e9);
  reader.Require("fp32");
  host->fp32 = ReadTypeRates(reader.Object("fp32"));
  if (reader.Has("fp16")) host->fp16 = ReadTypeRates(reader.Object("fp16"));
  if (reader.Has("bf16")) host->bf16 = ReadTypeRates(reader.Object("bf16"));
  reader.RefuseUnknownKeys();
}

HostSpec ReadHost(JsonReader reader, const std::string& key) {
  HostSpec host;
  host.key = key;
  reader.Require("name");
  reader.String("name", &host.name);
  ReadGbps(reader, "memory_gbps", &host.bytes_per_s);
  ReadGbps(reader, "network_gbps", &host.network_bytes_per_s);
  if (reader.Has("update_gbps")) {
    ReadGbps(reader, "update_gbps", &host.update_bytes_per_s);
  }
  if (reader.Has("emulated")) ReadEmulated(reader.Object("emulated"), &host);
  reader.Require("source");
  reader.String("source", &host.source);
  reader.RefuseUnknownKeys();
  return host;
}

// The keys of the object at `key`.
std::vector<std::string> KeysAt(JsonReader& reader, absl::string_view key) {
  std::vector<std::string> keys;
  const Json* const object = reader.Raw(key);
  if (object == nullptr || !object->is_object()) return keys;
  for (const auto& [name, value] : object->items()) keys.push_back(name);
  return keys;
}

template <class Spec>
Spec* Find(std::vector<Spec>& specs, absl::string_view key) {
  const std::string plain = PlainName(key);
  const auto found = std::find_if(
      specs.begin(), specs.end(),
      [&](const Spec& spec) { return PlainName(spec.key) == plain; });
  return found == specs.end() ? nullptr : &*found;
}

template <class Spec>
void Put(Spec spec, std::vector<Spec>* specs) {
  if (Spec* const old = Find(*specs, spec.key); old != nullptr) {
    *old = std::move(spec);
  } else {
    specs->push_back(std::move(spec));
  }
}

template <class Spec>
absl::StatusOr<Spec> Named(absl::string_view what, absl::string_view key,
                           std::vector<Spec> specs) {
  if (const Spec* const found = Find(specs, key); found != nullptr) {
    return *found;
  }
  std::vector<std::string> keys;
  for (const Spec& spec : specs) keys.push_back(spec.key);
  return absl::InvalidArgumentError(UnknownName(what, key, keys));
}

}  // namespace

const Machines& Machines::Known() {
  static const Machines& known = *[] {
    auto* const machines = new Machines();
    for (const EmbeddedText& text : MachineTexts()) {
      CASTOR_CHECK(machines->Add(text.text, text.name).ok());
    }
    return machines;
  }();
  return known;
}

absl::Status Machines::Add(absl::string_view text, absl::string_view source) {
  const auto document = ParseStrictJson(text, {.allow_comments = true});
  if (!document.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": ", document.status().message()));
  }
  JsonReport report{std::string(source)};
  JsonReader root(*document, report);
  Machines all = *this;
  ReadEfficiency(root.Object("efficiency"), &all.efficiency_);
  const std::vector<std::string> gpu_keys = KeysAt(root, "gpus");
  JsonReader gpus = root.Object("gpus");
  for (const std::string& key : gpu_keys) {
    Put(ReadGpu(gpus.Object(key), key, all.efficiency_), &all.gpus_);
  }
  const std::vector<std::string> host_keys = KeysAt(root, "hosts");
  JsonReader hosts = root.Object("hosts");
  for (const std::string& key : host_keys) {
    Put(ReadHost(hosts.Object(key), key), &all.hosts_);
  }
  root.RefuseUnknownKeys();
  CASTOR_RETURN_IF_ERROR(report.status());
  *this = std::move(all);
  return absl::OkStatus();
}

absl::StatusOr<GpuSpec> Machines::Gpu(absl::string_view key) const {
  return Named("GPU", key, gpus_);
}

absl::StatusOr<HostSpec> Machines::Host(absl::string_view key) const {
  return Named("host", key, hosts_);
}

const GpuSpec* Machines::GpuNamed(absl::string_view name) const {
  const auto found =
      std::find_if(gpus_.begin(), gpus_.end(),
                   [&](const GpuSpec& gpu) { return gpu.name == name; });
  return found == gpus_.end() ? nullptr : &*found;
}

}  // namespace castor
