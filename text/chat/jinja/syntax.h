// A template as a tree.
#ifndef CASTOR_TEXT_CHAT_JINJA_SYNTAX_H_
#define CASTOR_TEXT_CHAT_JINJA_SYNTAX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/chat/jinja/callable.h"
#include "text/chat/jinja/operators.h"
#include "text/chat/jinja/value.h"

namespace castor::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;
struct Statement;
using StatementPtr = std::unique_ptr<const Statement>;
using Body = std::vector<StatementPtr>;

enum class ExpressionKind : uint8_t {
  kConstant,     // value
  kName,         // name
  kList,         // items
  kTuple,        // items
  kDict,         // items: key, value, key, value, ...
  kNegative,     // items[0]
  kPositive,     // items[0]
  kNot,          // items[0]
  kAnd,          // items[0], items[1]
  kOr,           // items[0], items[1]
  kBinary,       // items[0] binary items[1]
  kConcatenate,  // items
  kCompare,      // items[0] comparisons[0] items[1] comparisons[1] ...
  kConditional,  // items: test, value, and otherwise if there is one
  kAttribute,    // items[0].name
  kItem,         // items[0][items[1]]
  kSlice,        // items[0][items[1]:items[2]:items[3]], null where none is
  kCall,         // items[0](arguments)
  kFilter,       // items[0] | callable(arguments); null in a filter block
  kTest,         // items[0] is callable(arguments)
};

struct Keyword {
  std::string name;
  ExpressionPtr value;
};

struct Expression {
  ExpressionKind kind;
  BinaryOperator binary = BinaryOperator::kAdd;
  int line = 0;
  int depth = 1;  // of the tree from here down
  std::string name;
  Value value;
  std::vector<ExpressionPtr> items;
  std::vector<Comparison> comparisons;
  const Callable* callable = nullptr;
  // These four are the arguments of a call, a filter or a test; the last two
  // are Python's *args and **kwargs.
  std::vector<ExpressionPtr> arguments;
  std::vector<Keyword> keywords;
  ExpressionPtr more_arguments, more_keywords;
};

// The target of an assignment: a name, a name's attribute (of a namespace), or
// several names.
struct Target {
  std::string name, attribute;
  std::vector<Target> several;
  bool is_tuple = false;
};

enum class StatementKind : uint8_t {
  kText,        // name
  kOutput,      // expression
  kIf,          // branches
  kFor,         // target, expression, condition, body, otherwise
  kSet,         // target, expression
  kSetBlock,    // target, expression (filters of a null, or null), body
  kWith,        // assignments, body
  kMacro,       // name, parameters, body
  kCallBlock,   // expression, parameters, body
  kFilter,      // expression (filters of a null), body
  kGeneration,  // body
  kBreak,
  kContinue,
};

struct Branch {
  ExpressionPtr condition;  // null: else
  Body body;
};

struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  // null: it has none
};

struct Statement {
  StatementKind kind;
  int line = 0;
  std::string name;
  ExpressionPtr expression, condition;
  Target target;
  Body body, otherwise;
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
};

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_SYNTAX_H_
