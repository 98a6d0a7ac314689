// A run's figures, piece by piece as a server hands them out.
import assert from 'node:assert/strict';
import {describe, it} from 'node:test';

import {LiveData} from '../src/live_data';
import {liveAnswer, livePoints} from './live_fixtures';

describe('Live data', () => {
  it('asks for all at first, and then for what is new', () => {
    const data = new LiveData();
    assert.equal(data.query(), 'live.json?since=0&validated=0');
    assert.ok(data.take(liveAnswer([1, 2, 3], {validated: [2]})));
    assert.equal(data.query(), 'live.json?since=3&validated=2');
    assert.ok(data.take(liveAnswer([4], {validated: [4]})));
    assert.ok(data.take(liveAnswer([])));
    assert.deepEqual(data.points, livePoints([1, 2, 3, 4]));
    assert.deepEqual(data.validation, {step: [2, 4], loss: [2.5, 4.5]});
    assert.equal(data.query(), 'live.json?since=4&validated=4');
  });

  it('begins anew where the server has merged its points', () => {
    const data = new LiveData();
    assert.ok(data.take(liveAnswer([1, 2, 3, 4])));
    assert.ok(!data.take(liveAnswer([6], {every: 2})));
    assert.equal(data.query(), 'live.json?since=0&validated=0');
    assert.ok(data.take(liveAnswer([2, 4, 6], {every: 2})));
    assert.deepEqual(data.points.step, [2, 4, 6]);
  });

  it('knows the last step and the time that is left', () => {
    const data = new LiveData();
    assert.equal(data.step, 0);
    assert.equal(data.secondsLeft, -1);
    assert.ok(data.take(liveAnswer([], {first: 41})));
    assert.equal(data.step, 40);
    // The run has 100 steps, of half a second each.
    assert.ok(data.take(liveAnswer([41, 42], {first: 41})));
    assert.equal(data.step, 42);
    assert.equal(data.secondsLeft, 29);
  });

  it('refuses a server of another version', () => {
    const answer = {...liveAnswer([1]), version: 2};
    assert.throws(() => new LiveData().take(answer), /version/);
    assert.throws(() => new LiveData().take(null as never), /version/);
  });
});
