// Computes what transformers' modeling_rope_utils.py computes in PyTorch on the
// host, in the same order and with a rounding to fp32 where PyTorch has one: a
// number of Python's that meets a tensor is rounded first. Powers are the
// nearest fp32 numbers, from which PyTorch's differ by at most a unit in the
// last place.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "models/rope/rope.h"

namespace castor::models {
namespace {

float Power(float base, double exponent) {
  return static_cast<float>(std::pow(static_cast<double>(base), exponent));
}

// base^(2i / R).
std::vector<float> Powers(float base, int64_t channels) {
  std::vector<float> powers(channels / 2);
  for (int64_t i = 0; i < channels / 2; ++i) {
    powers[i] =
        Power(base, static_cast<float>(2 * i) / static_cast<float>(channels));
  }
  return powers;
}

std::vector<float> Inverses(std::vector<float> values) {
  for (float& value : values) value = 1.0f / value;
  return values;
}

}  // namespace

float Rope::DynamicTheta(int64_t length) const {
  const double exponent =
      static_cast<double>(channels_) / static_cast<double>(channels_ - 2);
  if (length <= positions_) {
    // These are Python's own numbers. They differ from theta by rounding.
    const double grown = factor_ - (factor_ - 1);
    return static_cast<float>(theta_ * std::pow(grown, exponent));
  }
  const float stretched = static_cast<float>(factor_) *
                          static_cast<float>(length) /
                          static_cast<float>(positions_);
  const float grown = stretched - static_cast<float>(factor_ - 1);
  // The length is a tensor in PyTorch, but not the exponent.
  return static_cast<float>(theta_) * Power(grown, exponent);
}

std::vector<float> Rope::Llama3Frequencies() const {
  const double length = static_cast<double>(original_positions_);
  const float slow = static_cast<float>(length / low_freq_factor_);
  const float fast = static_cast<float>(length / high_freq_factor_);
  const float low = static_cast<float>(low_freq_factor_);
  const float range = static_cast<float>(high_freq_factor_ - low_freq_factor_);
  const float factor = static_cast<float>(factor_);
  std::vector<float> frequencies =
      Inverses(Powers(static_cast<float>(theta_), channels_));
  for (float& f : frequencies) {
    // A quotient by a tensor is the tensor's reciprocal times the dividend.
    const float wavelength = (1.0f / f) * static_cast<float>(2 * M_PI);
    if (wavelength > slow) {
      f = f / factor;
    } else if (!(wavelength < fast)) {
      const float smooth =
          ((1.0f / wavelength) * static_cast<float>(length) - low) / range;
      f = (1.0f - smooth) * f / factor + smooth * f;
    }
  }
  return frequencies;
}

std::vector<float> Rope::YarnFrequencies() const {
  const double channels = static_cast<double>(channels_);
  // The pair that turns `rotations` times within the original positions.
  const auto pair_of = [&](double rotations) {
    return channels *
           std::log(static_cast<double>(original_positions_) /
                    (rotations * 2 * M_PI)) /
           (2 * std::log(theta_));
  };
  double low = pair_of(beta_fast_);
  double high = pair_of(beta_slow_);
  if (truncate_) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, channels - 1);
  if (low == high) high += 0.001;
  std::vector<float> frequencies =
      Powers(static_cast<float>(theta_), channels_);
  for (int64_t i = 0; i < channels_ / 2; ++i) {
    const float power = frequencies[i];
    const float as_it_is = 1.0f / power;
    const float stretched = 1.0f / (static_cast<float>(factor_) * power);
    const float ramp =
        std::clamp((static_cast<float>(i) - static_cast<float>(low)) /
                       static_cast<float>(high - low),
                   0.0f, 1.0f);
    const float share = 1.0f - ramp;
    frequencies[i] = stretched * (1.0f - share) + as_it_is * share;
  }
  return frequencies;
}

std::vector<float> Rope::InverseFrequencies(int64_t length) const {
  switch (type_) {
    case RopeType::kDefault:
      break;
    case RopeType::kLinear: {
      std::vector<float> frequencies =
          Inverses(Powers(static_cast<float>(theta_), channels_));
      for (float& f : frequencies) f = f / static_cast<float>(factor_);
      return frequencies;
    }
    case RopeType::kDynamic:
      return Inverses(Powers(DynamicTheta(length), channels_));
    case RopeType::kLlama3:
      return Llama3Frequencies();
    case RopeType::kYarn:
      return YarnFrequencies();
  }
  return Inverses(Powers(static_cast<float>(theta_), channels_));
}

float Rope::attention_factor() const {
  if (type_ != RopeType::kYarn) return 1;
  if (attention_factor_) return static_cast<float>(*attention_factor_);
  const auto scale = [this](double mscale) {
    return factor_ <= 1 ? 1.0 : 0.1 * mscale * std::log(factor_) + 1.0;
  };
  if (mscale_ != 0 && mscale_all_dim_ != 0) {
    return static_cast<float>(scale(mscale_) / scale(mscale_all_dim_));
  }
  return static_cast<float>(scale(1));
}

}  // namespace castor::models
