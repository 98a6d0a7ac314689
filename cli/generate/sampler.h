// Chooses the next token, given how likely the model finds each.
#ifndef CASTOR_CLI_GENERATE_SAMPLER_H_
#define CASTOR_CLI_GENERATE_SAMPLER_H_

#include <cstdint>

#include "absl/types/span.h"

namespace castor::cli {

// The same logits, options and position give the same token, whoever asks.
class Sampler {
 public:
  struct Options {
    // Divides the logits: above 1 flatter, below 1 sharper; 0: always the
    // likeliest token, of several equal ones the first.
    double temperature = 0;
    // Draws among the likeliest tokens alone, as few as have this much of the
    // probability (Holtzman et al., "The curious case of neural text
    // degeneration", 2020, section 3.1), in (0, 1].
    double top_p = 1;
    uint64_t seed = 0;
  };

  explicit Sampler(const Options& options) : options_(options) {}

  // Returns the token at `position` of the text. There is at least one logit;
  // all are finite.
  int32_t Next(absl::Span<const float> logits, int64_t position) const;

 private:
  const Options options_;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_GENERATE_SAMPLER_H_
