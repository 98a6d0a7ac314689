#include "run/config/foreign/foreign_account.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace castor {

const Json* FindAtPath(const Json& document, absl::string_view path) {
  const Json* place = &document;
  for (const absl::string_view key : absl::StrSplit(path, '.')) {
    if (!place->is_object()) return nullptr;
    const auto found = place->find(std::string(key));
    if (found == place->end() || found->is_null()) return nullptr;
    place = &*found;
  }
  return place;
}

Json* FindAtPath(Json& document, absl::string_view path) {
  return const_cast<Json*>(FindAtPath(std::as_const(document), path));
}

std::string StringAtPath(const Json& document, absl::string_view path) {
  const Json* value = FindAtPath(document, path);
  return value != nullptr && value->is_string() ? value->get<std::string>()
                                                : "";
}

void SetAtPath(Json& document, absl::string_view path, Json value) {
  Json* place = &document;
  for (const absl::string_view key : absl::StrSplit(path, '.')) {
    if (!place->is_object()) *place = Json::object();
    place = &(*place)[std::string(key)];
  }
  *place = std::move(value);
}

void EraseAtPath(Json& document, absl::string_view path) {
  if (!document.is_object()) return;
  const size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  const auto found = document.find(key);
  if (found == document.end()) return;
  if (dot != absl::string_view::npos) {
    EraseAtPath(*found, path.substr(dot + 1));
    if (!found->is_object() || !found->empty()) return;
  }
  document.erase(found);
}

bool ForeignAccount::Has(ForeignFate fate) const {
  return std::any_of(
      entries_.begin(), entries_.end(),
      [fate](const ForeignEntry& entry) { return entry.fate == fate; });
}

void ForeignAccount::Add(ForeignFate fate, std::string says) {
  entries_.push_back({.key = key_, .fate = fate, .says = std::move(says)});
}

void ForeignAccount::Take(absl::string_view path, Json value,
                          absl::string_view says) {
  const auto by =
      std::find_if(taken_.begin(), taken_.end(),
                   [&](const auto& taken) { return taken.first == path; });
  if (by != taken_.end()) {
    const Json* was = FindAtPath(ours_, path);
    if (was != nullptr && *was != value) {
      return Lack(absl::StrCat("it asks for ", path, " = ", value.dump(),
                               ", and ", by->second, " for ", was->dump(),
                               ": leave one of them out"));
    }
  } else {
    taken_.emplace_back(path, key_);
  }
  Add(ForeignFate::kTaken,
      absl::StrCat(path, " = ", value.dump(), says.empty() ? "" : ": ", says));
  SetAtPath(ours_, path, std::move(value));
}

void ForeignAccount::TakePart(absl::string_view path, Json value,
                              absl::string_view says) {
  Add(ForeignFate::kTaken, std::string(says));
  SetAtPath(ours_, path, std::move(value));
}

void ForeignAccount::Ignore(absl::string_view says) {
  Add(ForeignFate::kMeaningless, std::string(says));
}

void ForeignAccount::LeaveToUser(absl::string_view says) {
  Add(ForeignFate::kToAdd, std::string(says));
}

void ForeignAccount::Lack(absl::string_view says) {
  Add(ForeignFate::kLacking, std::string(says));
}

}  // namespace castor
