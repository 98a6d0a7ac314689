#include "base/json_report.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/error_list.h"

namespace castor {
namespace {

// Nobody reads more, and documents may be hostile.
constexpr size_t kMaxErrors = 50;

// Returns true if `path` is `above`, or stands somewhere in the object or list
// at it.
bool IsAtOrBelow(absl::string_view path, absl::string_view above) {
  if (above.empty() || path == above) return true;
  if (!absl::StartsWith(path, above)) return false;
  return path[above.size()] == '.' || path[above.size()] == '[';
}

bool AreRelated(absl::string_view a, absl::string_view b) {
  return IsAtOrBelow(a, b) || IsAtOrBelow(b, a);
}

template <class Paths>
bool HasAbove(const Paths& paths, absl::string_view path) {
  return std::any_of(paths.begin(), paths.end(), [&](const auto& above) {
    return IsAtOrBelow(path, above);
  });
}

// A key as people of other habits write it: "Train-Batch-Size".
std::string Normal(absl::string_view key) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(key), {{"-", "_"}});
}

std::set<std::string> WordsOf(absl::string_view key) {
  return absl::StrSplit(key, '_', absl::SkipEmpty());
}

// The known key of which `key` is a slip of the pen: at most a letter in four
// is another. Null: none.
const std::string* FindTypo(const std::string& key,
                            const std::vector<std::string>& known) {
  const std::string* nearest = nullptr;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const std::string& candidate : known) {
    const int64_t distance = EditDistance(key, candidate);
    const auto longer =
        static_cast<int64_t>(std::max(key.size(), candidate.size()));
    if (distance < least && distance * 4 <= longer) {
      least = distance;
      nearest = &candidate;
    }
  }
  return nearest;
}

// The one known key that has all words of `key`: "placement_policy" for
// "policy". Null: none, or several.
const std::string* FindFullerName(const std::string& key,
                                  const std::vector<std::string>& known) {
  const std::set<std::string> words = WordsOf(key);
  const std::string* found = nullptr;
  for (const std::string& candidate : known) {
    const std::set<std::string> of_candidate = WordsOf(candidate);
    if (words.empty() ||
        !std::includes(of_candidate.begin(), of_candidate.end(), words.begin(),
                       words.end())) {
      continue;
    }
    if (found != nullptr) return nullptr;
    found = &candidate;
  }
  return found;
}

}  // namespace

std::string JoinPath(absl::string_view object, absl::string_view key) {
  return object.empty() ? std::string(key) : absl::StrCat(object, ".", key);
}

std::string PrintableKey(absl::string_view key) {
  constexpr size_t kMax = 80;
  return absl::StrCat(absl::Utf8SafeCHexEscape(key.substr(0, kMax)),
                      key.size() > kMax ? "..." : "");
}

void JsonReport::SetSource(std::string path, std::string source) {
  sources_.emplace_back(std::move(path), std::move(source));
}

void JsonReport::Add(Error error) {
  if (errors_.size() < kMaxErrors) {
    errors_.push_back(std::move(error));
  } else {
    ++more_errors_;
  }
}

void JsonReport::AddError(absl::string_view path, absl::string_view message,
                          std::vector<std::string> concerned) {
  Add({.kind = Kind::kValue,
       .path = std::string(path),
       .message = std::string(message),
       .concerned = std::move(concerned),
       .object = {},
       .key = {},
       .siblings = {}});
}

void JsonReport::AddErrorOf(absl::string_view source,
                            absl::string_view message) {
  Add({.kind = Kind::kOfSource,
       .path = std::string(source),
       .message = std::string(message),
       .concerned = {},
       .object = {},
       .key = {},
       .siblings = {}});
}

void JsonReport::AddMissing(absl::string_view path, absl::string_view message,
                            std::vector<std::string> concerned) {
  Add({.kind = Kind::kMissing,
       .path = std::string(path),
       .message = std::string(message),
       .concerned = std::move(concerned),
       .object = {},
       .key = {},
       .siblings = {}});
}

void JsonReport::AddUnknownKey(absl::string_view object, absl::string_view key,
                               std::vector<std::string> siblings) {
  Add({.kind = Kind::kUnknownKey,
       .path = JoinPath(object, PrintableKey(key)),
       .message = "unknown key",
       .concerned = {},
       .object = std::string(object),
       .key = std::string(key),
       .siblings = std::move(siblings)});
}

bool JsonReport::HasErrorAt(absl::string_view path) const {
  return std::any_of(errors_.begin(), errors_.end(), [&](const Error& error) {
    return error.kind != Kind::kOfSource && IsAtOrBelow(path, error.path);
  });
}

absl::Status JsonReport::status() const {
  if (errors_.empty()) return absl::OkStatus();
  // The paths whose values are in doubt: those of errors, and those of keys
  // that were probably meant.
  std::vector<std::string> doubtful;
  std::vector<Hint> hints(errors_.size());
  std::vector<bool> told(errors_.size());
  std::set<std::string> listed;  // objects whose known keys a hint has listed
  // First what is wrong by itself, then what may follow from it.
  for (const bool may_follow : {false, true}) {
    for (size_t i = 0; i < errors_.size(); ++i) {
      const Error& error = errors_[i];
      const bool follows =
          error.kind == Kind::kMissing || !error.concerned.empty();
      if (follows != may_follow) continue;
      if (error.kind == Kind::kOfSource) {
        told[i] = true;
        continue;
      }
      told[i] =
          !HasAbove(doubtful, error.path) &&
          std::none_of(error.concerned.begin(), error.concerned.end(),
                       [&](const std::string& path) {
                         return std::any_of(doubtful.begin(), doubtful.end(),
                                            [&](const std::string& other) {
                                              return AreRelated(path, other);
                                            });
                       });
      doubtful.push_back(error.path);
      if (error.kind == Kind::kUnknownKey) hints[i] = HintFor(error);
    }
    if (may_follow) break;
    // Only now, since a wrong value beside a key that means the same is one.
    for (const Hint& hint : hints) {
      if (!hint.meant.empty()) doubtful.push_back(hint.meant);
    }
  }
  std::vector<std::string> lines;
  for (size_t i = 0; i < errors_.size(); ++i) {
    if (!told[i]) continue;
    const Error& error = errors_[i];
    if (error.kind == Kind::kOfSource) {
      lines.push_back(absl::StrCat(error.path, ": ", error.message));
      continue;
    }
    std::string hint = hints[i].text;
    if (error.kind == Kind::kUnknownKey && hint.empty() &&
        !error.siblings.empty() && listed.insert(error.object).second) {
      hint = absl::StrCat(
          "; the known ones ",
          error.object.empty() ? "" : absl::StrCat("in ", error.object, " "),
          "are ", absl::StrJoin(error.siblings, ", "));
    }
    lines.push_back(absl::StrCat(SourcesOf(error), ": ", error.path,
                                 error.path.empty() ? "" : ": ", error.message,
                                 hint));
  }
  if (more_errors_ > 0) {
    lines.push_back(absl::StrCat(source_, ": ", more_errors_,
                                 " more errors, which are not listed"));
  }
  return ErrorList(absl::StatusCode::kInvalidArgument, lines);
}

const std::string* JsonReport::FindSource(absl::string_view path) const {
  // The last one replaced what others had set.
  for (auto it = sources_.rbegin(); it != sources_.rend(); ++it) {
    if (IsAtOrBelow(path, it->first)) return &it->second;
  }
  return nullptr;
}

std::string JsonReport::SourcesOf(const Error& error) const {
  const std::string path = error.kind == Kind::kUnknownKey
                               ? JoinPath(error.object, error.key)
                               : error.path;
  const std::string* own = FindSource(path);
  std::vector<std::string> all = {own == nullptr ? source_ : *own};
  for (const std::string& concerned : error.concerned) {
    const std::string* source = FindSource(concerned);
    if (source != nullptr &&
        std::find(all.begin(), all.end(), *source) == all.end()) {
      all.push_back(*source);
    }
  }
  return absl::StrJoin(all, ", ");
}

JsonReport::Hint JsonReport::HintFor(const Error& unknown) const {
  const auto nearest = [](std::string path) {
    return Hint{.text = absl::StrCat("; the nearest known key is ", path),
                .meant = path};
  };
  // A name with a path is one of that object's.
  const std::string whole = JoinPath(unknown.object, unknown.key);
  for (const absl::string_view key :
       {absl::string_view(whole), absl::string_view(unknown.key)}) {
    for (const OtherName& name : other_names_) {
      if (name.theirs != key) continue;
      const std::string place =
          name.ours.empty()
              ? ""
              : absl::StrCat("here ", name.ours, " takes its place");
      const bool both = !name.ours.empty() && !name.says.empty();
      return {.text = absl::StrCat("; ", place, both ? ": " : "", name.says,
                                   name.ours.empty() ? ": leave it out" : ""),
              .meant = std::string(name.ours)};
    }
  }
  const std::string key = Normal(unknown.key);
  if (const std::string* typo = FindTypo(key, unknown.siblings)) {
    return nearest(JoinPath(unknown.object, *typo));
  }
  std::vector<std::string> elsewhere;
  for (const auto& [object, known] : known_) {
    if (known == key) elsewhere.push_back(JoinPath(object, known));
  }
  if (elsewhere.size() == 1) return nearest(elsewhere.front());
  if (const std::string* name = FindFullerName(key, unknown.siblings)) {
    return nearest(JoinPath(unknown.object, *name));
  }
  return {};
}

int64_t EditDistance(absl::string_view a, absl::string_view b) {
  // A key of any length costs no more than a long word does.
  a = a.substr(0, 100);
  b = b.substr(0, 100);
  // Three rows: of the letters of `a` before the last two, the last, and now.
  std::vector<int64_t> before(b.size() + 1), last(b.size() + 1),
      row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1,
                         last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace castor
