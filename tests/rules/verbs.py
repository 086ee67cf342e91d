"""Guesses whether a sentence reads "subject verb ...", from its words and a list of verbs, without a grammar.

The guess errs: a sentence whose verb is missing below is refused, and the verb is then added. A noun phrase
with a verb inside ("The place where pages lie") must not pass for a sentence.
"""

import re

FINITE = set("""is are was were has have had does do did can cannot may might must will would should need needs isn't aren't
doesn't don't can't won't""".split())
BASE = set("""accept acquire act add allocate answer apply ask attach begin belong borrow bring build call carry change check
choose claim close collect come compact compare compile compute connect consist contain convert copy count cover
create cut decide decode define deliver describe deserialize detect divide drive drop encode end enqueue ensure
enumerate estimate evict exchange execute exist expire explain export expose extend fail fetch fill find fix
follow format forward free gather generate get give go guard handle hash help hide hold implement import include
index insert invalidate issue join keep know launch lead leave let limit link list listen live load lock log
lookup make manage map mark mask match mean measure meet merge move multiply name normalise normalize notify
observe offer open order own owns parse pass perform permit pick place plan point prefill prepare present
prevent print process produce promise protect prove provide publish pull put quantise quantize queue raise rank
read rebuild receive recompute record recover reduce refer refuse register reject release remove render renew
replace reply report represent require reserve resolve restart restore resume retry return reuse rotate round
run sample save say scale schedule score search see select send serialize serve set shard share show shut signal
skip solve sort specify split stand start state steer step stop store stream sum supply take tell test tokenise
tokenize total track transfer transform translate turn unmap update use validate verify wait walk want watch
work wrap write yield""".split())


def third(verb):
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2] not in "aeiou" else verb + "s"


THIRD = {third(verb) for verb in BASE}
# Nouns as well: verbs only where the next word can follow no noun.
NOUNS = set("""accesses answers batches blocks builds calls changes checks copies counts covers cuts edits ends exchanges
formats forms grants guards handles hands holds indexes joins leads leaves limits links lists loads locks logs
looks makes maps marks masks matches means measures moves names offers orders pages passes permits picks places
plans points processes queues ranks reads records reports requests requires returns reuses rounds runs samples
saves scales schedules scores searches sends sets shards shares shows signals sorts splits stands starts states
steps stops stores streams sums supplies tables tests tracks transfers turns uses waits walks watches works
writes""".split())
DETERMINERS = set("""a an the its their his our your my this these those every each one two any all some no both what which how
whether either several many few it them us such only another itself themselves""".split())
FOLLOWS_VERB = DETERMINERS | set("to from into onto with at when if whether only exactly at least either".split())
# They may open a clause that has a verb of its own.
CLAUSE = set("""that which who whom whose where when what how whether because if while until as than since once unless why""".split())
SUBJECTS = set("a an the this these those each every it they we you he she".split())
BEFORE_NOUN = set("""of in on at by for with from to into onto over under between among through per about beside behind beyond during
without within against across along after before until and or nor but not like as than is are was be both via
only either except""".split())
PLURAL = {"they", "we", "you", "that", "which", "who", "here"}
# A word with letters only, perhaps a compound or a possessive.
NAME = re.compile(r"[a-z]+(?:-[a-z]+)*(?:'s)?")
# A clause about a noun ("the page a token lies in") cannot begin behind these.
NO_ANCHOR = BEFORE_NOUN | DETERMINERS | CLAUSE | FINITE | THIRD | {"(", ")"}


def has_main_verb(sentence):
    """Whether a verb of the main clause comes before the first comma, semicolon or colon."""
    words = re.findall(r"[A-Za-z_'`-]*[A-Za-z_'\d]|[,;:()]", sentence)
    waiting = depth = 0  # clauses inside whose verb has not come; parentheses
    for at, word in enumerate(words):
        lower = word.lower()
        before = words[at - 1].lower() if at else ""
        behind = words[at + 1].lower() if at + 1 < len(words) else ""
        depth += (word == "(") - (word == ")")
        if depth or word == ")":
            continue
        if word in ",;:" or not at and (lower in CLAUSE or lower in THIRD - NOUNS):
            return False
        if lower in CLAUSE:
            waiting += 1
            continue
        if at and lower in SUBJECTS and before not in NO_ANCHOR:
            waiting += 1  # "the page a token lies in"
            continue
        if not at or not is_verb(lower, before, behind) or before in ("and", "or", "to") and lower not in FINITE:
            continue
        if not waiting:
            return True
        waiting -= 1
    return False


def is_verb(word, before, behind):
    if word in FINITE:
        return True
    noun = before in DETERMINERS or before.endswith("'s") or before in BEFORE_NOUN
    if word in NOUNS:
        ordinary = NAME.fullmatch(behind) and behind not in BEFORE_NOUN | CLAUSE | FINITE | BASE
        return not noun and (behind in FOLLOWS_VERB or ordinary)
    if word in THIRD:
        return before not in DETERMINERS
    plural = before.endswith("s") and not before.endswith(("ss", "us", "'s"))
    plural = plural and before not in THIRD - NOUNS | DETERMINERS
    if word in BASE:
        return plural or before in PLURAL or behind in DETERMINERS and not noun
    return word.endswith("s") and not word.endswith(("ss", "us", "'s")) and behind in DETERMINERS and not noun
