// The values that a template computes with: the values of Python that jinja2
// gives it.
//
// A value is 16 bytes and is copied freely; the object that it points to
// belongs to a Heap (heap.h), which must outlive it. Nothing that a template
// can do changes a string, a sequence or a dictionary once it is made;
// namespaces alone change.
//
//   kind          Python
//   kUndefined    jinja2.Undefined, with what is missing
//   kNone, kBool, kInt, kFloat
//   kString       str, UTF-8; or markupsafe.Markup (is_markup)
//   kSequence     list, tuple, range, a view of a dictionary, a generator
//   kDict         dict, in the order of insertion
//   kNamespace    namespace()
//   kFunction     a macro, a function of the environment, a method of a value
//   kLoop         the variable `loop`
//
// An int has 64 bits: a larger one is refused, never rounded.
#ifndef CASTOR_TEXT_CHAT_JINJA_VALUE_H_
#define CASTOR_TEXT_CHAT_JINJA_VALUE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace castor::text::jinja {

// The type that a sequence has in Python.
enum class SequenceType : uint8_t {
  kList,
  kTuple,
  kRange,
  kKeys,
  kValues,
  kItems,
  kGenerator,
};

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kSequence,
  kDict,
  kNamespace,
  kFunction,
  kLoop,
};

struct String;
struct Sequence;
struct Dict;
struct Namespace;
struct Function;
struct Loop;
struct Missing;

class Value {
 public:
  // Makes an undefined value of which nothing is known.
  Value() : kind_(Kind::kUndefined), missing_(nullptr) {}
  explicit Value(const Missing* missing)
      : kind_(Kind::kUndefined), missing_(missing) {}
  static Value None() {
    Value none;
    none.kind_ = Kind::kNone;
    return none;
  }
  static Value Bool(bool value) {
    Value made;
    made.kind_ = Kind::kBool;
    made.bool_ = value;
    return made;
  }
  static Value Int(int64_t value) {
    Value made;
    made.kind_ = Kind::kInt;
    made.int_ = value;
    return made;
  }
  static Value Float(double value) {
    Value made;
    made.kind_ = Kind::kFloat;
    made.float_ = value;
    return made;
  }
  explicit Value(const String* string, bool is_markup = false)
      : kind_(Kind::kString), is_markup_(is_markup), string_(string) {}
  explicit Value(Sequence* sequence)
      : kind_(Kind::kSequence), sequence_(sequence) {}
  explicit Value(const Dict* dict) : kind_(Kind::kDict), dict_(dict) {}
  explicit Value(Namespace* names)
      : kind_(Kind::kNamespace), namespace_(names) {}
  explicit Value(const Function* function)
      : kind_(Kind::kFunction), function_(function) {}
  explicit Value(const Loop* loop) : kind_(Kind::kLoop), loop_(loop) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  // Returns true if it is a sequence of this type, or of one of the two.
  bool is(SequenceType type) const;
  bool is_list_or_tuple() const;
  // Returns true if it is a sequence whose items have indices.
  bool is_indexed() const;
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_none() const { return is(Kind::kNone); }
  bool is_string() const { return is(Kind::kString); }
  bool is_markup() const { return is_string() && is_markup_; }
  // A bool is an int, as in Python.
  bool is_integer() const { return is(Kind::kInt) || is(Kind::kBool); }
  bool is_number() const { return is_integer() || is(Kind::kFloat); }

  // Each may be called only for a value of the kind that its name says.
  const Missing* missing() const { return missing_; }  // may be null
  bool boolean() const { return bool_; }
  int64_t integer() const { return is(Kind::kBool) ? bool_ : int_; }
  double number() const {
    return is(Kind::kFloat) ? float_ : static_cast<double>(integer());
  }
  const String& string() const { return *string_; }
  absl::string_view text() const;
  Sequence& sequence() const { return *sequence_; }
  const Dict& dict() const { return *dict_; }
  Namespace& names() const { return *namespace_; }
  const Function& function() const { return *function_; }
  const Loop& loop() const { return *loop_; }

  // Returns true if both are the same object (`is` of Python); scalars are if
  // they are of one type and equal.
  bool IsSame(const Value& other) const;

 private:
  Kind kind_;
  bool is_markup_ = false;
  union {
    bool bool_;
    int64_t int_;
    double float_;
    const Missing* missing_;
    const String* string_;
    Sequence* sequence_;
    const Dict* dict_;
    Namespace* namespace_;
    const Function* function_;
    const Loop* loop_;
  };
};

struct String {
  std::string bytes;  // valid UTF-8
  bool is_ascii;
  int64_t length;  // in code points
};

inline absl::string_view Value::text() const { return string_->bytes; }

struct Sequence {
  SequenceType type;
  std::vector<Value> items;
  bool is_used = false;  // a generator gives its items once
};

inline bool Value::is(SequenceType type) const {
  return is(Kind::kSequence) && sequence_->type == type;
}
inline bool Value::is_list_or_tuple() const {
  return is(SequenceType::kList) || is(SequenceType::kTuple);
}
inline bool Value::is_indexed() const {
  return is_list_or_tuple() || is(SequenceType::kRange);
}

struct Dict {
  std::vector<std::pair<Value, Value>> items;
};

struct Namespace {
  std::vector<std::pair<Value, Value>> items;
};

// The reason why a value is undefined.
struct Missing {
  enum class Why : uint8_t {
    kName,       // no variable `name`
    kAttribute,  // `owner` has no attribute or element `key`
    kOther,      // `name` is the whole message
    kUnsafe,     // `owner` has the attribute `key`, and it may not be used
  };
  Why why;
  std::string name;
  Value owner, key;
};

// The state of a loop that its body may ask for.
struct Loop {
  const Sequence* items;
  int64_t index0;
  // The arguments of the last call of loop.changed(), and whether there was
  // one.
  mutable std::vector<Value> last_changed;
  mutable bool has_changed = false;
};

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_VALUE_H_
