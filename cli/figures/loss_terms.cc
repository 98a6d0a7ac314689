#include "cli/figures/loss_terms.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace castor::cli {

std::vector<LossTerm> NameTerms(const ModelConfig& model,
                                absl::Span<const double> means) {
  std::vector<LossTerm> terms;
  if (means.empty()) return terms;
  const std::vector<absl::string_view> names = model.architecture->loss_terms();
  for (size_t k = 0; k < means.size(); ++k) {
    terms.push_back({.name = std::string(names[k]), .loss = means[k]});
  }
  return terms;
}

std::string LossTermsText(absl::Span<const LossTerm> terms) {
  if (terms.empty()) return "";
  return absl::StrCat(" (",
                      absl::StrJoin(terms, ", ",
                                    [](std::string* out, const LossTerm& term) {
                                      absl::StrAppendFormat(
                                          out, "%s %.4f", term.name, term.loss);
                                    }),
                      ")");
}

nlohmann::ordered_json LossTermsJson(absl::Span<const LossTerm> terms) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const LossTerm& term : terms) json[term.name] = term.loss;
  return json;
}

nlohmann::ordered_json AccuraciesJson(absl::Span<const LossTerm> terms) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const LossTerm& term : terms) json[term.name] = term.accuracy;
  return json;
}

}  // namespace castor::cli
