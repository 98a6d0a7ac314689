// The terms of a loss that has several (Model::Losses), by their names. A loss
// of one term has none of these.
#ifndef CASTOR_CLI_FIGURES_LOSS_TERMS_H_
#define CASTOR_CLI_FIGURES_LOSS_TERMS_H_

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "run/config/model_config.h"

namespace castor::cli {

struct LossTerm {
  std::string name;
  double loss = 0;  // the mean over its labels
  // The share of its labels that the model predicts correctly; NaN: not known.
  double accuracy = std::numeric_limits<double>::quiet_NaN();
};

// Gives `means` (StepReport::terms) their names.
std::vector<LossTerm> NameTerms(const ModelConfig& model,
                                absl::Span<const double> means);

// Returns " (masked_lm 6.1000, next_sentence 0.6931)"; "" for no terms.
std::string LossTermsText(absl::Span<const LossTerm> terms);

// Returns {"masked_lm": 6.1, "next_sentence": 0.6931}.
nlohmann::ordered_json LossTermsJson(absl::Span<const LossTerm> terms);
nlohmann::ordered_json AccuraciesJson(absl::Span<const LossTerm> terms);

}  // namespace castor::cli

#endif  // CASTOR_CLI_FIGURES_LOSS_TERMS_H_
