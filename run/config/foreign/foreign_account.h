// An account of each key of another system's configuration: read as a key of
// Castor's, ignored with a reason, or refused.
#ifndef CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_ACCOUNT_H_
#define CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_ACCOUNT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/json_reader.h"
#include "nlohmann/json.hpp"

namespace castor {

enum class ForeignFate : uint8_t {
  kTaken,        // as Castor's key of the same meaning
  kMeaningless,  // nothing here depends on it
  kToAdd,        // the user has to say it in Castor's words
  kLacking,      // it changes results, and Castor does not have it
};

struct ForeignEntry {
  std::string key;  // its path, with the file's name where there are several
  ForeignFate fate = ForeignFate::kTaken;
  // kTaken: Castor's key and value; else the reason.
  std::string says;
};

// The value at "a.b" of `document`; null: there is none, or a null.
const Json* FindAtPath(const Json& document, absl::string_view path);
Json* FindAtPath(Json& document, absl::string_view path);
// The text at `path`; "": there is none.
std::string StringAtPath(const Json& document, absl::string_view path);
// Makes the objects that lead there, in the place of what is none.
void SetAtPath(Json& document, absl::string_view path, Json value);
// Removes it, and the objects around it that it leaves empty.
void EraseAtPath(Json& document, absl::string_view path);

// A configuration of Castor's that is being made, and the entries so far.
// Conversions speak of the key that `Begin` named last.
class ForeignAccount {
 public:
  ForeignAccount() : ours_(Json::object()) {}
  explicit ForeignAccount(Json ours) : ours_(std::move(ours)) {}

  Json& ours() { return ours_; }
  const Json& ours() const { return ours_; }
  const std::vector<ForeignEntry>& entries() const { return entries_; }
  bool Has(ForeignFate fate) const;

  void Begin(std::string key) { key_ = std::move(key); }
  // The key of Castor's at `path` becomes `value`. Where another foreign key
  // has made it something else, the entry says so and is kLacking.
  void Take(absl::string_view path, Json value, absl::string_view says = "");
  // The same of a value of which this key says only a part, as `says` tells.
  void TakePart(absl::string_view path, Json value, absl::string_view says);
  void Ignore(absl::string_view says);
  void LeaveToUser(absl::string_view says);
  void Lack(absl::string_view says);

 private:
  void Add(ForeignFate fate, std::string says);

  Json ours_;
  std::string key_;
  std::vector<ForeignEntry> entries_;
  std::vector<std::pair<std::string, std::string>>
      taken_;  // path, by which key
};

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_ACCOUNT_H_
