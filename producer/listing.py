"""Paged lists: judging them, publishing their items, and what a refusal means while one is under way.

Pure. A list is announced (RELIST_START) only when its first page has been judged, so that a list which never arrives,
is older than what was read, or shows that the server went back in time, leaves nothing behind. Only a list that is
complete, of one version and not contradicted may end with RELIST_END (G5).
"""

from __future__ import annotations

from dataclasses import replace

from kubecdc.records import EventType, Relist
from kubecdc.versions import newer
from producer import frames
from producer.answers import Answer, classify
from producer.published import Published
from producer.signals import (
    Checkpoint,
    Count,
    EpochBegun,
    Lane,
    Mark,
    Output,
    Publish,
    Recalled,
    Request,
    Unreachable,
    Verb,
)
from producer.state import (
    Next,
    Session,
    Step,
    Stepped,
    Versions,
    abort,
    ask_watch,
    chain,
    contradicted,
    lose,
    owed,
    remember,
    restored,
    wait,
)


def page(session: Session, answer: frames.Page) -> Stepped:
    """A page of the running list."""
    if session.started:
        return _next_page(session, answer)
    return judge(session, answer)


def recalled(session: Session, answer: Recalled) -> Stepped:
    """What the log holds is known, as far as it could be read; now the list itself begins."""
    session, outputs = remember(session, answer)
    return session, [*outputs, Request(Lane.MAIN, Verb.LIST)]


def judge(session: Session, first: frames.Page) -> Stepped:
    """Decide what a list is worth by its first page: use it, ask again, or take the server for restored."""
    if not restored(session) and contradicts(session, first):
        session = contradicted(session, first.rv)
        if not restored(session):
            return _older(session)
    confirmed = restored(session)
    if confirmed and session.proof is not None and newer(session.proof, first.rv):
        return _older(replace(session, proof=first.rv))  # what an epoch begins with must hold all that proved it
    session, outputs = owed(session)
    if confirmed:
        session = new_epoch(session)
        outputs.append(EpochBegun(session.epoch))
    relist = replace(session.relist or Relist("", session.reason), list_rv=first.rv)
    if confirmed:
        relist = replace(relist, reason="epoch")
    session.published.begin_list()
    session = replace(session, relist=relist, started=True, reason=relist.reason)
    outputs.append(Mark(EventType.RELIST_START, session.epoch, relist.previous_rv, relist))
    return chain((session, outputs), _using(first))


def _older(session: Session) -> Stepped:
    """A list is older than it may be: ask for another one."""
    session, outputs = _again(session)
    return session, [Count("older_lists"), *outputs]


def contradicts(session: Session, answer: frames.Page) -> bool:
    """The list is older than what was read, or shows an object older than it is known to be."""
    known = session.versions.known
    if known is not None and newer(known, answer.rv):
        return True
    return bool(session.published.older_items(answer.items, answer.rv))


def new_epoch(session: Session) -> Session:
    """The server was restored: what was read before says nothing about versions from here on."""
    return replace(session, epoch=session.epoch + 1, versions=Versions(), published=Published(None), older=0)


def _next_page(session: Session, answer: frames.Page) -> Stepped:
    relist = session.relist
    if relist is None or answer.rv != relist.list_rv:
        return chain(abort(session, "the pages are of different versions"), _again)
    if session.published.older_items(answer.items, answer.rv):
        session = contradicted(session, answer.rv)
        return chain(abort(session, "an item is older than it is known to be"), _older)
    return _using(answer)(session)


def _again(session: Session) -> Stepped:
    return wait(session, Next.LIST)


def _using(answer: frames.Page) -> Step:
    """Publish the items of a page, then ask for the next one or end the list."""

    def use(session: Session) -> Stepped:
        relist = session.relist
        outputs: list[Output] = []
        for item in answer.items:
            session.published.listed(item.uid, item.rv)
            outputs.append(Publish(EventType.LISTED, session.epoch, item, relist))
        if answer.continue_:
            return session, [*outputs, Request(Lane.MAIN, Verb.LIST, token=answer.continue_)]
        return chain((session, outputs), complete, ask_watch)

    return use


def complete(session: Session) -> Stepped:
    """The list is whole: its version is where the watch begins, never that of an item."""
    relist = session.relist or Relist("", session.reason)
    rv = relist.list_rv or ""
    session.published.end_list(rv)
    session = replace(
        session, versions=Versions.at(rv), relist=None, started=False, lost=False, older=0, cuts=0, too_large=0
    )
    return session, [Mark(EventType.RELIST_END, session.epoch, rv, relist), Checkpoint(session.epoch, rv)]


def refused(session: Session, error: frames.ServerError) -> Stepped:
    """The server refused a page. The token that a 410 offers reads another version, so it is never used."""
    answer = classify(error)
    session, outputs = abort(session, f"a page was refused: {error.label()}")
    if answer is Answer.FORBIDDEN:
        then = Next.STREAMED_LIST if session.reason == "first" else Next.LIST  # as far as lists are still streamed
        return chain(
            (session, outputs), lambda s: lose(s, f"forbidden to list: {error.label()}"), lambda s: wait(s, then)
        )
    at_least = error.retry_after
    session, more = wait(session, Next.LIST, at_least)
    return session, [*outputs, Count("refusals", answer.value), *more]


def failed(session: Session, answer: Unreachable) -> Stepped:
    """No page came, or it broke off."""
    session, outputs = chain(abort(session, f"a page did not arrive: {answer.why}"), _again)
    return session, [*outputs, Count("refusals", "unreachable")]


def broken(session: Session, answer: frames.Broken) -> Stepped:
    """A page that is no list of ours: nothing may be concluded from it, and somebody has to look."""
    session, outputs = abort(session, f"a page is broken: {answer.why}")
    return chain((session, outputs), lambda s: lose(s, f"the list is broken: {answer.why}"), _again)
