#include "models/activation_names.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/strict_json.h"

namespace castor::models {
namespace {

struct NamedActivation {
  absl::string_view name;
  ops::Activation activation;
};
constexpr NamedActivation kActivations[] = {
    {"relu", ops::Activation::kRelu},
    {"gelu", ops::Activation::kGelu},
    {"gelu_new", ops::Activation::kGeluTanh},
    {"gelu_pytorch_tanh", ops::Activation::kGeluTanh},
    {"silu", ops::Activation::kSilu},
    {"swish", ops::Activation::kSilu},
};

const NamedActivation* Find(absl::string_view name) {
  for (const NamedActivation& row : kActivations) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace

void ReadActivation(JsonReader& reader, absl::string_view key,
                    std::string* name) {
  std::string given = *name;
  reader.String(key, &given);
  if (Find(given) != nullptr) {
    *name = given;
    return;
  }
  std::string names;
  for (const NamedActivation& row : kActivations) {
    absl::StrAppend(&names, names.empty() ? "\"" : ", \"", row.name, "\"");
  }
  reader.Fail(key, absl::StrCat(QuotedForMessage(given),
                                " is not supported; only ", names, " are"));
}

ops::Activation ActivationNamed(absl::string_view name) {
  const NamedActivation* row = Find(name);
  CASTOR_CHECK(row != nullptr);
  return row->activation;
}

}  // namespace castor::models
