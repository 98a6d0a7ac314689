#include "device/comm/handshake.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/comm/secret.h"

namespace castor {
namespace {

HandshakeTerms Terms() {
  return {.key = "key",
          .run_id = "run",
          .role = ConnectionRole::kControl,
          .note_bytes = 5};
}

Claim OfRankOne() {
  Claim claim;
  claim.rank = 1;
  claim.to = 0;
  claim.listener = Loopback();
  claim.listener.set_port(4711);
  return claim;
}

Handshake Connecting(const HandshakeTerms& terms,
                     const Claim& claim = OfRankOne()) {
  return Handshake::Connecting(terms, *RandomKey(), claim,
                               std::string(terms.note_bytes, 'n'));
}
Handshake Listening(const HandshakeTerms& terms, int own_rank = 0) {
  return Handshake::Listening(terms, *RandomKey(), own_rank);
}

// All that is said, as it would cross the network.
struct Talk {
  std::string claim, answer, note;
  bool connects = false, listens = false;  // has the other's proof
};

Talk Let(Handshake& connecting, Handshake& listening) {
  Talk talk;
  talk.claim = connecting.TakeWords();
  if (!listening.Hear(talk.claim)) return talk;
  talk.answer = listening.TakeWords();
  talk.connects = connecting.Hear(talk.answer);
  if (!talk.connects) return talk;
  talk.note = connecting.TakeWords();
  talk.listens = listening.Hear(talk.note);
  return talk;
}

TEST(Handshake, BothEndsOfARunProveIt) {
  Handshake connecting = Connecting(Terms()), listening = Listening(Terms());
  EXPECT_FALSE(connecting.done() || listening.done());
  const Talk talk = Let(connecting, listening);
  EXPECT_TRUE(talk.connects && talk.listens);
  EXPECT_TRUE(connecting.done() && listening.done());
  EXPECT_EQ(connecting.wanted() + listening.wanted(), 0u);
  EXPECT_EQ(connecting.TakeWords() + listening.TakeWords(), "");
  EXPECT_EQ(listening.claim().rank, 1);
  EXPECT_EQ(listening.claim().to, 0);
  EXPECT_EQ(listening.claim().listener.ToString(), "127.0.0.1:4711");
  EXPECT_EQ(listening.note(), "nnnnn");
  EXPECT_EQ(connecting.SessionKey(), listening.SessionKey());
}

TEST(Handshake, SessionKeysAreOfOneConnection) {
  Handshake one = Connecting(Terms()), other = Listening(Terms());
  Handshake two = Connecting(Terms()), another = Listening(Terms());
  ASSERT_TRUE(Let(one, other).listens);
  ASSERT_TRUE(Let(two, another).listens);
  EXPECT_NE(one.SessionKey(), two.SessionKey());
}

TEST(Handshake, WhoHasOtherTermsHasNoProof) {
  std::vector<HandshakeTerms> others(4, Terms());
  others[0].key = "another";
  others[1].key = "";
  others[2].run_id = "run2";
  others[3].run_id = "";
  for (const HandshakeTerms& terms : others) {
    Handshake connecting = Connecting(terms), listening = Listening(Terms());
    EXPECT_FALSE(Let(connecting, listening).connects);
    EXPECT_FALSE(listening.done());
    // The end that listens has no proof with other terms either.
    Handshake mine = Connecting(Terms()), theirs = Listening(terms);
    EXPECT_FALSE(Let(mine, theirs).connects);
    EXPECT_FALSE(mine.done());
    EXPECT_EQ(mine.TakeWords(), "");
  }
}

TEST(Handshake, IsForOneRoleAndOneRank) {
  HandshakeTerms lane = Terms();
  lane.role = ConnectionRole::kLane;
  Handshake connecting = Connecting(Terms()), listening = Listening(lane);
  EXPECT_FALSE(listening.Hear(connecting.TakeWords()));
  Handshake other = Connecting(Terms()), of_rank_two = Listening(Terms(), 2);
  EXPECT_FALSE(of_rank_two.Hear(other.TakeWords()));
}

TEST(Handshake, EveryBitCounts) {
  Handshake first = Connecting(Terms()), second = Listening(Terms());
  const Talk sizes = Let(first, second);
  for (size_t i = 0; i < sizes.claim.size(); ++i) {
    Handshake connecting = Connecting(Terms()), listening = Listening(Terms());
    std::string claim = connecting.TakeWords();
    claim[i] ^= 1;
    // Refused at once, or the proofs are of two different claims.
    if (!listening.Hear(claim)) continue;
    EXPECT_FALSE(connecting.Hear(listening.TakeWords())) << i;
  }
  for (size_t i = 0; i < sizes.answer.size(); ++i) {
    Handshake connecting = Connecting(Terms()), listening = Listening(Terms());
    ASSERT_TRUE(listening.Hear(connecting.TakeWords()));
    std::string answer = listening.TakeWords();
    answer[i] ^= 1;
    EXPECT_FALSE(connecting.Hear(answer)) << i;
  }
  for (size_t i = 0; i < sizes.note.size(); ++i) {
    Handshake connecting = Connecting(Terms()), listening = Listening(Terms());
    ASSERT_TRUE(listening.Hear(connecting.TakeWords()));
    ASSERT_TRUE(connecting.Hear(listening.TakeWords()));
    std::string note = connecting.TakeWords();
    note[i] ^= 1;
    EXPECT_FALSE(listening.Hear(note)) << i;
    EXPECT_FALSE(listening.done());
  }
}

TEST(Handshake, WordsOfAnotherTimeAreNoProof) {
  Handshake connecting = Connecting(Terms()), listening = Listening(Terms());
  const Talk before = Let(connecting, listening);
  ASSERT_TRUE(before.listens);
  Handshake again = Listening(Terms());
  ASSERT_TRUE(again.Hear(before.claim));
  EXPECT_FALSE(again.Hear(before.note));
  Handshake me = Connecting(Terms());
  EXPECT_FALSE(me.Hear(before.answer));
}

TEST(Handshake, OnesOwnWordsAreNoProof) {
  // Somebody who has no key tries to have the end that listens prove it to
  // itself.
  Handshake listening = Listening(Terms());
  Handshake stranger = Connecting({.key = "", .run_id = "", .note_bytes = 5});
  ASSERT_TRUE(listening.Hear(stranger.TakeWords()));
  const std::string answer = listening.TakeWords();
  EXPECT_FALSE(
      listening.Hear("nnnnn" + answer.substr(answer.size() - kKeyBytes)));
  // The end that connects takes none of its own words either: a claim is no
  // answer, in size or in words.
  Handshake connecting = Connecting(Terms());
  const std::string claim = connecting.TakeWords();
  EXPECT_FALSE(connecting.Hear(claim.substr(0, connecting.wanted())));
}

TEST(Handshake, WhatFailedStaysSo) {
  Handshake connecting = Connecting(Terms()), listening = Listening(Terms());
  EXPECT_FALSE(listening.Hear(std::string(listening.wanted(), 'G')));
  EXPECT_EQ(listening.wanted(), 0u);
  EXPECT_FALSE(listening.Hear(""));
  EXPECT_EQ(listening.TakeWords(), "");
  EXPECT_FALSE(listening.done());
}

TEST(Handshake, ListenersOfUnknownFamiliesAreRefused) {
  Claim claim = OfRankOne();
  claim.listener.storage.ss_family = AF_UNIX;
  Handshake connecting = Connecting(Terms(), claim);
  Handshake listening = Listening(Terms());
  EXPECT_FALSE(Let(connecting, listening).connects);
}

}  // namespace
}  // namespace castor
