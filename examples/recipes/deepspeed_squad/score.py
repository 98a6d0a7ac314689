"""Exact match and F1 of answers to SQuAD's questions, by the rules of its official
script (Rajpurkar et al., "SQuAD: 100,000+ questions for machine comprehension of
text", 2016; evaluate-v1.1.py and evaluate-v2.0.py):

Small letters count, and neither punctuation, nor the words a, an and the, nor how
words are set apart. An answer's exact match is 1 if it then is one of the right ones.
Its F1 is the best over the right ones: of the words that both have, counted as often
as both have them, the harmonic mean of their shares in either. Where one of the two
has no words, both figures are 1 if the other has none either. A question without a
right answer has the empty one.
"""

import collections
import re
import string

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def words_of(answer):
    """The words of an answer that count."""
    return re.sub(r"\b(a|an|the)\b", " ", answer.lower().translate(_PUNCTUATION)).split()


def exact_match(answer, right):
    return float(words_of(answer) == words_of(right))


def f1(answer, right):
    ours, theirs = words_of(answer), words_of(right)
    if not ours or not theirs:
        return float(ours == theirs)
    common = sum((collections.Counter(ours) & collections.Counter(theirs)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(ours), common / len(theirs)
    return 2 * precision * recall / (precision + recall)


def score(answers, questions):
    """{"exact_match", "f1"}, in percent, of `answers`, {id: text}, to `questions`,
    [(id, the right answers)]. An answer that is missing is worth nothing."""
    totals = {"exact_match": 0.0, "f1": 0.0}
    for name, right_ones in questions:
        if name not in answers:
            continue
        for figure, of in (("exact_match", exact_match), ("f1", f1)):
            totals[figure] += max(of(answers[name], r) for r in right_ones or [""])
    return {name: 100 * total / len(questions) for name, total in totals.items()}
