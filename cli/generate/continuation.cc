#include "cli/generate/continuation.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/first_not_finite.h"
#include "base/status_macros.h"
#include "cli/output/standard_output.h"

namespace castor::cli {

void Printer::Show(const std::string& text) {
  constexpr absl::string_view kReplacement = "\xef\xbf\xbd";
  if (absl::EndsWith(text, kReplacement)) return;
  Finish(text);
}

void Printer::Finish(const std::string& text) {
  if (text.size() <= shown_) return;
  std::fwrite(text.data() + shown_, 1, text.size() - shown_, stdout);
  shown_ = text.size();
  FlushOutput();
}

void Printer::Break() {
  if (shown_ > 0) std::printf("\n");
}

absl::StatusOr<std::unique_ptr<Session>> LoadSession(
    const GenerateSource& source, int64_t first_tokens, int64_t capacity) {
  Session::Options options;
  options.generation = {.prompt = first_tokens, .capacity = capacity};
  options.from_checkpoint = !source.checkpoint.empty();
  CASTOR_ASSIGN_OR_RETURN(
      std::unique_ptr<Session> session,
      Session::Create(source.config, std::move(options), nullptr));
  CASTOR_RETURN_IF_ERROR(source.checkpoint.empty()
                             ? session->Initialize()
                             : session->InitializeFrom(source.checkpoint));
  return session;
}

absl::StatusOr<bool> Continue(
    const Continuation& how, size_t begin, std::vector<int32_t>* ids,
    absl::FunctionRef<absl::Status(const std::vector<int32_t>&)> show) {
  Trainer& trainer = how.session.trainer();
  std::vector<float> logits;
  if (begin == 0) {
    CASTOR_ASSIGN_OR_RETURN(logits, trainer.ReadOn(*ids));
  } else {
    // Behind the first pass tokens are read one by one.
    for (size_t i = begin; i < ids->size(); ++i) {
      CASTOR_ASSIGN_OR_RETURN(logits, trainer.ReadOn({(*ids)[i]}));
    }
  }
  for (int64_t i = 0; i < how.max_new_tokens; ++i) {
    if (i > 0) {
      CASTOR_ASSIGN_OR_RETURN(logits, trainer.ReadOn({ids->back()}));
    }
    if (const int64_t bad = FirstNotFinite(logits); bad >= 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the logit of token ", bad, " after ", ids->size(), " tokens is ",
          logits[bad],
          ", no number: the model's weights overflow in this type, or are "
          "damaged"));
    }
    const int32_t token =
        how.sampler.Next(logits, static_cast<int64_t>(ids->size()));
    ids->push_back(token);
    if (std::find(how.ends.begin(), how.ends.end(), token) != how.ends.end()) {
      return true;
    }
    CASTOR_RETURN_IF_ERROR(show(*ids));
  }
  return false;
}

}  // namespace castor::cli
