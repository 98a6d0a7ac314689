// Rotary position embedding (RoPE) as Hugging Face's configurations say it: how
// fast each pair of a head's channels turns from one position to the next.
//
// Pair i of R / 2 turns by inverse frequency f_i radians a position; plain
// RoPE has f_i = theta^(-2i / R). The other types stretch that to sequences
// longer than those of pre-training:
//   linear   f_i / factor
//   dynamic  theta grows with the length of this sequence, once that is beyond
//            max_position_embeddings ("NTK-aware")
//   llama3   slow pairs as linear, fast ones as they are, a ramp between
//   yarn     the same with another ramp, and cosines and sines times an
//            attention factor
// Sources: Su et al., "RoFormer", 2021; Peng et al., "YaRN", 2023;
// transformers 5.x, modeling_rope_utils.py, whose fp32 roundings these are.
//
// Threads: immutable once read; any number may use it.
#ifndef CASTOR_MODELS_ROPE_ROPE_H_
#define CASTOR_MODELS_ROPE_ROPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json_reader.h"

namespace castor::models {

enum class RopeType { kDefault, kLinear, kDynamic, kLlama3, kYarn };

// Beyond it fp32 does not know every position.
inline constexpr int64_t kMostRopePositions = int64_t{1} << 24;

// A family's part, which is known before the configuration is read.
struct RopeModel {
  int64_t head_size = 0;  // D
  int64_t positions = 0;  // max_position_embeddings
  double theta = 10000;   // where the configuration has none
  // If true, partial_rotary_factor may be other than 1 in this family.
  bool partial = false;
  // For families whose layers differ (Gemma 3): the key of this kind of layers
  // within rope_parameters, the old key of its theta, and whether rope_scaling
  // is about it.
  absl::string_view layer_type = "";
  absl::string_view theta_key = "rope_theta";
  bool scaled = true;
};

class Rope {
 public:
  // Reads rope_parameters (transformers 5.x), or rope_theta, rope_scaling and
  // partial_rotary_factor (4.x); both may be there if they say the same. An
  // unknown or unsupported type, a value out of range and a contradiction go
  // into the reader's report, by the key's name. Keys that belong to another
  // type are ignored, as transformers does; keys of no type are errors.
  void Read(JsonReader& reader, const RopeModel& model);
  // The keys that Read asks for, with the default theta_key.
  static absl::Span<const absl::string_view> keys();

  // The value of "rope_parameters" in config.json and in Castor's own
  // configuration, with the values in effect; Read reads the same from it.
  OrderedJson ToJson() const;

  // Notes for the user on keys that were read and are passed over.
  const std::vector<std::string>& notes() const { return notes_; }

  RopeType type() const { return type_; }
  // R, even: channels [0, R) of each head turn, the others stay.
  int64_t rotary_channels() const { return channels_; }
  // f [R / 2] for a sequence of `length` positions, on which only `dynamic`
  // depends.
  std::vector<float> InverseFrequencies(int64_t length) const;
  // The factor of cosines and sines.
  float attention_factor() const;

 private:
  // From the object of rope_parameters or rope_scaling, and from the keys that
  // may stand outside of it instead.
  void ReadObject(JsonReader& object, JsonReader& outside,
                  const RopeModel& model);
  void ReadYarn(JsonReader& object);

  // True: all frequencies are in [0, 2), so that SinCos takes each angle.
  bool TurnsSlowly() const;
  // Theta for a sequence of `length`, of type dynamic.
  float DynamicTheta(int64_t length) const;
  std::vector<float> Llama3Frequencies() const;
  std::vector<float> YarnFrequencies() const;

  RopeType type_ = RopeType::kDefault;
  int64_t channels_ = 0;
  int64_t positions_ = 0;
  double theta_ = 10000;
  double partial_factor_ = 1;
  double factor_ = 1;
  int64_t original_positions_ = 0;  // llama3 and yarn
  double low_freq_factor_ = 1;
  double high_freq_factor_ = 4;
  std::optional<double> attention_factor_;
  double beta_fast_ = 32;
  double beta_slow_ = 1;
  double mscale_ = 0;  // 0: none
  double mscale_all_dim_ = 0;
  bool truncate_ = true;
  std::vector<std::string> notes_;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_ROPE_ROPE_H_
